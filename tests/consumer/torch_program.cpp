// SPDX-License-Identifier: Apache-2.0
// A user's program with LibTorch: two workers fit one weight, and keep a checkpoint of it.
#include <cstdio>

#include <cereal/cereal.hpp>

#include <raytrain/backend/torch.hpp>
#include <raytrain/trainer.hpp>

struct Step {
  double loss;
  template <class A>
  void serialize(A& archive) {
    archive(CEREAL_NVP(loss));
  }
};

void train(raytrain::TorchContext& ctx) {
  auto model = ctx.prepare_model([] { return torch::nn::Linear{1, 1}; });
  torch::optim::SGD optimizer{model->parameters(), 0.1};
  auto const x = torch::tensor({{-1.0F}, {1.0F}});
  auto loss = torch::ones({});
  for (int step = 0; step < 100; ++step) {
    optimizer.zero_grad();
    loss = torch::mse_loss(model(x), 2 * x + 1);
    loss.backward();
    optimizer.step();
  }
  ctx.report(Step{loss.item<double>()}, raytrain::save(model, optimizer));
}

auto main() -> int {
  raytrain::Trainer<raytrain::TorchBackend> trainer{
      train, {.scaling = {.num_workers = 2}, .run = {.name = "torch", .storage_path = "runs"}}};
  auto const result = trainer.fit();
  auto const loss = result.metrics.number("loss");
  std::printf("loss %g, checkpoints %zu\n", loss.value_or(-1), result.checkpoints.size());
  return loss < 1e-6 && result.checkpoints.size() == 1 ? 0 : 1;
}
