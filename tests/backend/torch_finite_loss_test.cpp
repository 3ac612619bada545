// SPDX-License-Identifier: Apache-2.0
// Losses that are not finite.
#include <torch/torch.h>

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
using raytrain::testing::thrown_error;

namespace {

struct Training {
  int workers = 2;
  int virtual_shards = 0;
  int batches = 1;  ///< Of a window.
  double value = std::numeric_limits<double>::quiet_NaN();
  std::uint32_t rank = 1;  ///< Of the loss with that value, at its 11th batch.
};

struct Ended {
  std::string error;
  std::vector<ErrorInfo> failures;
  std::size_t attempts = 0;
  std::vector<int> steps;  ///< Of each rank.
};

auto train(Training const& training) -> Ended {
  TemporaryFolder const folder;
  Ended ended;
  ended.steps.resize(static_cast<std::size_t>(training.workers));
  auto const loop = [&](TorchContext& ctx) {
    auto const rank = ctx.world_rank().value;
    auto model = ctx.prepare_model([] { return torch::nn::Linear{64, 10}; });
    torch::optim::SGD optimizer{model->parameters(), 0.05};
    ctx.report(Epoch{-1, 0.0}, save(model, optimizer));
    int batches = 0;
    for (int epoch = 0; epoch < 4; ++epoch) {
      for (auto const& batch : ctx.dataset_shard("train").batches({.batch_size = 8, .epoch = epoch})) {
        auto const is_last = ctx.accumulate(training.batches);
        auto loss = torch::nn::functional::cross_entropy(model(batch["image"].flatten(1).to(torch::kFloat) / 255),
                                                         batch["label"].to(torch::kLong));
        if (++batches == 11 && rank == training.rank) loss = loss * training.value;
        ctx.check_finite(loss);
        loss.backward();
        if (!is_last) continue;
        optimizer.step();
        optimizer.zero_grad();
        ++ended.steps[rank];
        for (auto const& parameter : model->parameters()) CHECK(parameter.isfinite().all().item<bool>());
      }
    }
  };
  Trainer<TorchBackend> trainer{
      loop,
      {.scaling = {.num_workers = training.workers, .virtual_shards = training.virtual_shards},
       .run = {.name = "run", .storage_path = folder.path(), .failure = {.max_failures = 3}, .handle_signals = false},
       .datasets = {{"train", small_images(128)}}}};
  try {
    ended.attempts = trainer.fit().attempts.size();
  } catch (TrainingFailed const& failed) {
    ended.error = failed.what();
    ended.failures = failed.failures();
    ended.attempts = failed.result().attempts.size();
  }
  return ended;
}

}  // namespace

TEST_CASE("a loss of one rank that is not finite ends the run on all of them before a step, and is not tried again") {
  for (int const workers : {1, 2, 3, 4}) {
    CAPTURE(workers);
    auto const ended = train({.workers = workers, .rank = static_cast<std::uint32_t>(workers - 1)});
    REQUIRE(ended.failures.size() == 1);
    CHECK(ended.failures[0].rank == Rank{static_cast<std::uint32_t>(workers - 1)});
    CHECK(ended.failures[0].code == Errc::not_retryable);
    check_contains(ended.error, "the loss of rank " + std::to_string(workers - 1) + " is nan in its check 11 (after ");
    CHECK(ended.attempts == 1);
    CHECK(ended.steps == std::vector<int>(static_cast<std::size_t>(workers), 10));
  }
}

TEST_CASE("the error names the value, and how far the data is") {
  auto const ended = train({.value = -std::numeric_limits<double>::infinity(), .rank = 0});
  check_contains(
      ended.error,
      "checking a loss: the loss of rank 0 is -inf in its check 11 (after 48 samples of epoch 1); look for the "
      "operation that makes it");
}

TEST_CASE("so ends a window of accumulated batches, and a step of virtual shards") {
  auto const windows = train({.batches = 4});
  check_contains(windows.error, "is nan in its check 11 (");
  CHECK(windows.steps == std::vector{2, 2});
  auto const shards = train({.virtual_shards = 4});
  check_contains(shards.error, "is nan in its check 11 (");
  CHECK(shards.steps == std::vector{5, 5});
}

TEST_CASE("with NonFinite::warn a training goes on, and the worker warns of its 1st, 2nd and 4th such loss") {
  std::vector<int> steps(2);
  auto const result = run_once({.workers = 2}, [&](TorchContext& ctx) {
    auto const rank = ctx.world_rank().value;
    for (int step = 0; step < 8; ++step) {
      auto const is_wrong = rank == 1 && step % 2 == 1;
      ctx.check_finite(torch::tensor(is_wrong ? std::numeric_limits<double>::quiet_NaN() : 1.0), NonFinite::warn);
      ++steps[rank];
    }
  });
  CHECK(steps == std::vector{8, 8});
  CHECK(warnings_with(result, "that are not finite") == 3);
  for (auto const* const text : {"the loss of rank 1 is nan in its check 2, one of 1 so far that are not finite, and "
                                 "training goes on; look for the operation",
                                 "check 4, one of 2 so far", "check 8, one of 4 so far"}) {
    CHECK(warnings_with(result, text) == 1);
  }
}

TEST_CASE("finite losses change nothing, of whatever type, and what is no loss is refused") {
  auto const ended = train({.value = 1});
  CHECK(ended.error.empty());
  CHECK(ended.steps == std::vector{32, 32});
  run_once({.workers = 1}, [](TorchContext& ctx) {
    ctx.check_finite(torch::tensor(std::numeric_limits<float>::max()));
    ctx.check_finite(torch::tensor({-1.0}, torch::kDouble));
    ctx.check_finite(torch::tensor(3.0).to(torch::kBFloat16));
    check_contains(thrown_error([&] { ctx.check_finite(torch::tensor(std::numeric_limits<float>::infinity())); }),
                   "the loss of rank 0 is inf in its check 4; look");
    CHECK(thrown_error([&] { ctx.check_finite(torch::ones({3})); }) ==
          "invalid_call: checking a loss: it must be one number (got 3); give the loss that backward() is called on");
    check_contains(thrown_error([&] { ctx.check_finite({}); }), "must be one number (got 0)");
  });
}
