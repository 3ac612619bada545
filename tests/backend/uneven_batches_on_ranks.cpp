// SPDX-License-Identifier: Apache-2.0
// A training in which rank r has 2 r + 1 batches, against one process that has all of them; fails when they differ:
//   mpirun -n 3 torch_ranks_program uneven_batches STORAGE
#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <raytrain/backend/torch.hpp>
#include <raytrain/trainer.hpp>

#include "torch_ranks_program.hpp"

namespace uneven_batches {

namespace {

struct NetImpl : torch::nn::Module {
  torch::nn::Linear first = register_module("first", torch::nn::Linear{6, 9});
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d{9});
  torch::nn::Linear last = register_module("last", torch::nn::Linear{9, 2});
  NetImpl() { to(torch::kDouble); }
  auto forward(torch::Tensor const& x) -> torch::Tensor { return last(torch::tanh(norm(first(x)))); }
};
TORCH_MODULE(Net);

auto loss_of(Net& model, torch::Tensor const& batch) -> torch::Tensor { return (model(batch) - 1).square().mean(); }

auto batch_of(std::uint32_t rank, std::uint32_t step) -> std::optional<torch::Tensor> {
  if (step > 2 * rank) return std::nullopt;
  auto generator = at::detail::createCPUGenerator(1000 * (rank + 1) + step);
  return torch::randn({5, 6}, generator, torch::kDouble);
}

/// One step of all ranks' batches, of which the first one leaves its statistics.
void step_with_all(Net& model, torch::optim::Optimizer& optimizer, std::uint32_t ranks, std::uint32_t step) {
  optimizer.zero_grad();
  std::vector<torch::Tensor> losses;
  std::vector<torch::Tensor> statistics;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    auto const batch = batch_of(rank, step);
    if (!batch) continue;
    losses.push_back(loss_of(model, *batch));
    if (!statistics.empty()) continue;
    for (auto const& buffer : model->buffers()) statistics.push_back(buffer.clone());
  }
  torch::stack(losses).mean().backward();
  optimizer.step();
  torch::NoGradGuard const no_grad;
  for (std::size_t i = 0; i < statistics.size(); ++i) model->buffers()[i].copy_(statistics[i]);
}

void expect_near(std::vector<torch::Tensor> const& got, std::vector<torch::Tensor> const& expected) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (torch::allclose(got[i], expected[i], 0, 1e-11)) continue;
    throw std::runtime_error{"tensor " + std::to_string(i) + " differs by " +
                             std::to_string((got[i] - expected[i]).abs().max().item<double>())};
  }
}

void train(raytrain::TorchContext& ctx) {
  auto model = ctx.prepare_model([] { return Net{}; });
  Net together;
  for (std::size_t i = 0; i < model->parameters().size(); ++i) {
    together->parameters()[i].set_data(model->parameters()[i].clone());
  }
  auto optimizer = ctx.prepare_optimizer<torch::optim::SGD>(model, torch::optim::SGDOptions{0.1}.momentum(0.9));
  torch::optim::SGD whole{together->parameters(), torch::optim::SGDOptions{0.1}.momentum(0.9)};

  std::uint32_t step = 0;
  auto const next = [&] { return batch_of(ctx.world_rank().value, step++); };
  for (auto batch = next(); ctx.join(batch.has_value()); batch = next()) {
    optimizer.zero_grad();
    batch ? loss_of(model, *batch).backward() : ctx.shadow_backward(model);
    optimizer.step();
    step_with_all(together, whole, ctx.world_size().value, step - 1);
    expect_near(model->parameters(), together->parameters());
    expect_near(model->buffers(), together->buffers());
  }
  if (step != 2 * ctx.world_size().value) throw std::runtime_error{"ended behind step " + std::to_string(step - 1)};
}

}  // namespace

auto run(int argc, char** argv) -> int try {
  raytrain::Trainer<raytrain::TorchBackend> trainer{
      train, {.run = {.name = "run", .storage_path = argc > 1 ? argv[1] : "", .handle_signals = false}}};
  return trainer.fit().state == raytrain::RunState::finished ? 0 : 1;
} catch (std::exception const& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}

}  // namespace uneven_batches
