// SPDX-License-Identifier: Apache-2.0
// The training of examples/linear_regression.cpp by LibTorch alone, in one process and without checkpoints.
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <vector>

#include <torch/torch.h>

int main() {
  std::vector<float> x(1024), y(1024);
  for (std::size_t i = 0; i < x.size(); ++i) y[i] = 2 * (x[i] = static_cast<float>(i) / 1024) + 1;
  auto const xs = torch::from_blob(x.data(), {1024, 1});
  auto const ys = torch::from_blob(y.data(), {1024, 1});
  torch::nn::Linear model{1, 1};
  torch::optim::SGD optimizer{model->parameters(), 0.3};
  for (int epoch = 0; epoch < 20; ++epoch) {
    auto const order = torch::randperm(1024);
    for (auto const& rows : order.split(32)) {
      optimizer.zero_grad();
      auto loss = torch::mse_loss(model(xs.index_select(0, rows)), ys.index_select(0, rows));
      loss.backward();
      optimizer.step();
    }
  }
  auto const a = model->weight.item<double>(), b = model->bias.item<double>();
  std::printf("y = %.2f x + %.2f\n", a, b);
  return std::abs(a - 2) < 0.01 && std::abs(b - 1) < 0.01 ? 0 : 1;
}
