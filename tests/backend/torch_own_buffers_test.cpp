// SPDX-License-Identifier: Apache-2.0
// Models whose workers keep their own buffers.
#include <torch/torch.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/backend/torch.hpp>
#include <raytrain/trainer.hpp>

#include "../support/thrown_error.hpp"
#include "torch_run.hpp"

using namespace raytrain;
using raytrain::testing::check_contains;
using raytrain::testing::thrown_error;

namespace {

struct NormedImpl : torch::nn::Module {
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d{1});
  torch::Tensor weight = register_parameter("weight", torch::ones({1}));
  auto forward(torch::Tensor const& x) -> torch::Tensor { return norm(x) * weight; }
};
TORCH_MODULE(Normed);

/// The mean of 10 * (rank + 1), of which momentum leaves a tenth behind the first step.
auto batch_of(Rank rank) -> torch::Tensor {
  auto const mean = 10.0 * (rank.value + 1);
  return torch::tensor({{mean - 1}, {mean + 1}}, torch::kFloat);
}

/// Of each rank.
struct Behind {
  std::vector<double> mean = std::vector<double>(2);
  std::vector<double> weight = std::vector<double>(2);
};

/// Trains until so many steps are done, and goes on with what lies in `folder`.
auto train_until(int steps, std::filesystem::path const& folder, ModelOptions const& options) -> Behind {
  Behind behind;
  run_in(folder, {.workers = 2}, [&](TorchContext& ctx) {
    auto const rank = ctx.world_rank();
    auto model = ctx.prepare_model([] { return Normed{}; }, options);
    torch::optim::SGD optimizer{model->parameters(), 0.1};
    for (int step = ctx.restore(model, optimizer); step < steps; ++step) {
      (model(batch_of(rank)).square().mean() * (rank.value + 1.0)).backward();
      optimizer.step();
      optimizer.zero_grad();
      ctx.report(Epoch{step, 0.0}, save(model, optimizer));
    }
    behind.mean[rank.value] = model->norm->running_mean.item<double>();
    behind.weight[rank.value] = model->weight.item<double>();
  });
  return behind;
}

auto refusal(std::function<ModelOptions(Rank)> const& options, int virtual_shards = 0) -> std::string {
  TemporaryFolder const folder;
  Trainer<TorchBackend> trainer{
      [&](TorchContext& ctx) { (void)ctx.prepare_model([] { return Normed{}; }, options(ctx.world_rank())); },
      {.scaling = {.num_workers = 2, .virtual_shards = virtual_shards},
       .run = {.name = "run", .storage_path = folder.path(), .handle_signals = false},
       .datasets = {{"train", small_images(8)}}}};
  return thrown_error([&] { trainer.fit(); });
}

}  // namespace

TEST_CASE("without broadcast_buffers each worker keeps its own buffers, and gradients are averaged as with it") {
  for (auto const overlap : {Overlap::off, Overlap::on}) {
    TemporaryFolder const folder;
    TemporaryFolder const shared_folder;
    auto const own = train_until(1, folder.path(), {.overlap = overlap, .broadcast_buffers = false});
    auto const shared = train_until(1, shared_folder.path(), {.overlap = overlap});
    CHECK(own.mean[0] == doctest::Approx(1));
    CHECK(own.mean[1] == doctest::Approx(2));
    CHECK(shared.mean[1] == shared.mean[0]);
    CHECK(own.weight == shared.weight);
    CHECK(own.weight[0] == doctest::Approx(0.7).epsilon(0.01));  // 1 - 0.1 * (2 + 4) / 2
  }
}

TEST_CASE("a restarted run whose workers keep their own buffers goes on with rank 0's on all of them") {
  TemporaryFolder const folder;
  train_until(1, folder.path(), {.broadcast_buffers = false});
  auto const behind = train_until(2, folder.path(), {.broadcast_buffers = false});
  CHECK(behind.mean[0] == doctest::Approx(0.9 * 1 + 1));
  CHECK(behind.mean[1] == doctest::Approx(0.9 * 1 + 2));
}

TEST_CASE("buffers of each worker's own are refused on some ranks only, and with virtual shards") {
  check_contains(refusal([](Rank rank) { return ModelOptions{.broadcast_buffers = rank == Rank{0}}; }),
                 "rank 0 has no ModelOptions::exchange, and rank 1 has no ModelOptions::exchange and no "
                 "ModelOptions::broadcast_buffers; give the same ModelOptions on every rank");
  check_contains(refusal([](Rank) { return ModelOptions{.broadcast_buffers = false}; }, 2),
                 "ModelOptions::broadcast_buffers: was given (false) in a run of 2 virtual shards");
}
