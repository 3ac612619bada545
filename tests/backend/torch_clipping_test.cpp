// SPDX-License-Identifier: Apache-2.0
// LibTorch's clip_grad_norm_ on averaged gradients.
#include <torch/torch.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/backend/torch.hpp>
#include <raytrain/trainer.hpp>

#include "../support/thrown_error.hpp"
#include "torch_run.hpp"

using namespace raytrain;
using raytrain::testing::check_contains;

namespace {

struct Clipping {
  int workers = 2;
  int virtual_shards = 0;
  std::int64_t batch_size = 16;
  int batches = 1;
  bool is_sharded = false;
  double max_norm = 0.5;
};

struct Clipped {
  std::vector<std::vector<double>> norms;  ///< Of each rank, by step.
  Tensors parameters;                      ///< Of rank 0.
};

auto clipped(Clipping const& clipping) -> Clipped {
  TemporaryFolder const folder;
  Clipped result;
  result.norms.resize(static_cast<std::size_t>(clipping.workers));
  auto const loop = [&](TorchContext& ctx, torch::nn::Sequential& model, auto& optimizer) {
    for (auto const& batch : ctx.dataset_shard("train").batches({.batch_size = clipping.batch_size})) {
      auto const is_last = ctx.accumulate(clipping.batches);
      optimizer.zero_grad();
      auto const x = batch["image"].flatten(1).to(torch::kFloat) / 255;
      torch::nn::functional::cross_entropy(model->forward(x), batch["label"].to(torch::kLong)).backward();
      if (!is_last) continue;
      Tensors squares;
      for (auto const& parameter : model->parameters())
        squares.push_back(parameter.grad().to(torch::kDouble).square().sum());
      auto const expected = torch::stack(squares).sum().sqrt().template item<double>();
      auto const norm = torch::nn::utils::clip_grad_norm_(model->parameters(), clipping.max_norm);
      CHECK(norm == doctest::Approx(expected).epsilon(1e-5));
      CHECK(norm > clipping.max_norm);
      result.norms[ctx.world_rank().value].push_back(norm);
      optimizer.step();
    }
    if (ctx.world_rank() == Rank{0}) result.parameters = copies(model->parameters());
  };
  auto const train = [&](TorchContext& ctx) {
    auto model = ctx.prepare_model([] {
      return torch::nn::Sequential{torch::nn::Linear{64, 700}, torch::nn::ReLU{}, torch::nn::Linear{700, 10}};
    });
    if (clipping.is_sharded) {
      auto optimizer = ctx.prepare_optimizer<torch::optim::SGD>(model, {0.05});
      loop(ctx, model, optimizer);
    } else {
      torch::optim::SGD optimizer{model->parameters(), {0.05}};
      loop(ctx, model, optimizer);
    }
  };
  Trainer<TorchBackend>{train,
                        {.scaling = {.num_workers = clipping.workers, .virtual_shards = clipping.virtual_shards},
                         .run = {.name = "run", .storage_path = folder.path(), .handle_signals = false},
                         .datasets = {{"train", small_images(192)}}}}
      .fit();
  for (auto const& norms : result.norms) CHECK(norms == result.norms[0]);  // bit by bit
  CHECK(result.norms[0].size() > 1);
  return result;
}

}  // namespace

TEST_CASE(
    "clip_grad_norm_ gives every rank the same norm of the averaged gradient, by which both optimizers step alike") {
  for (int const workers : {1, 2, 3}) {
    auto const whole = clipped({.workers = workers});
    auto const sharded = clipped({.workers = workers, .is_sharded = true});
    CHECK(same_bits(sharded.parameters, whole.parameters));
    CHECK(sharded.norms == whole.norms);
  }
}

TEST_CASE("with virtual shards the clipped steps have the same bits with any number of workers") {
  auto const one = clipped({.workers = 1, .virtual_shards = 4});
  auto const three = clipped({.workers = 3, .virtual_shards = 4});
  CHECK(one.norms[0] == three.norms[0]);
  CHECK(same_bits(one.parameters, three.parameters));
}

TEST_CASE("the norm of a window is that of a batch as large as the window, up to rounding") {
  auto const large = clipped({.batch_size = 48});
  auto const windows = clipped({.batch_size = 16, .batches = 3});
  REQUIRE(windows.norms[0].size() == large.norms[0].size());
  for (std::size_t i = 0; i < large.norms[0].size(); ++i) {
    CHECK(windows.norms[0][i] == doctest::Approx(large.norms[0][i]).epsilon(1e-4));
  }
}

TEST_CASE(
    "a gradient that is not finite on one rank has such a norm on all, which all refuse where that is asked for") {
  constexpr auto nan = std::numeric_limits<double>::quiet_NaN();
  constexpr auto infinity = std::numeric_limits<double>::infinity();
  for (double const value : {nan, infinity}) {
    std::vector<double> norms(2);
    std::vector<std::string> errors(2);
    run_once({}, [&](TorchContext& ctx) {
      auto const rank = ctx.world_rank().value;
      auto model = ctx.prepare_model([] { return torch::nn::Linear{3, 1}; });
      (model->weight.sum() * (rank == 1 ? value : 1.0)).backward();
      try {
        (void)torch::nn::utils::clip_grad_norm_(model->parameters(), 1.0, 2.0, /*error_if_nonfinite=*/true);
      } catch (c10::Error const& error) {
        errors[rank] = error.what();
      }
      norms[rank] = torch::nn::utils::clip_grad_norm_(model->parameters(), 1.0);
    });
    CHECK(std::isnan(norms[0]) == std::isnan(value));
    CHECK(!std::isfinite(norms[0]));
    CHECK(!std::isfinite(norms[1]));
    for (auto const& error : errors) check_contains(error, "is non-finite");
  }
}
