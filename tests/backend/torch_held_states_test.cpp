// SPDX-License-Identifier: Apache-2.0
// Trainings most of whose states are copied, and not written unless something happens.
#include <torch/torch.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <stdexcept>
#include <utility>

#include <doctest/doctest.h>

#include <raytrain/backend/torch.hpp>
#include <raytrain/config/checkpoint_config.hpp>
#include <raytrain/trainer.hpp>

#include "torch_run.hpp"

using namespace raytrain;

namespace {

struct HeldRun {
  Tensors parameters;
  Result result;
};

// In whose first attempt rank 1 fails before the report of this epoch; -1: never.
auto held_run(CheckpointConfig checkpoint, int failing) -> HeldRun {
  TemporaryFolder const folder;
  HeldRun run;
  auto const train = [&](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return torch::nn::Linear{4, 2}; });
    torch::optim::Adam optimizer{model->parameters(), 1e-2};
    for (auto epoch = ctx.restore(model, optimizer); epoch < 8; ++epoch) {
      optimizer.zero_grad();
      auto const loss = model->forward(torch::randn({16, 4}, ctx.generator())).square().mean();
      loss.backward();
      optimizer.step();
      if (epoch == failing && ctx.world_rank() == Rank{1} && ctx.attempt() == Attempt{1})
        throw std::runtime_error{"as planned"};
      ctx.report(Epoch{epoch, loss.item<double>()}, save(model, optimizer));
    }
    if (ctx.world_rank() == Rank{0}) run.parameters = copies(model->parameters());
  };
  Trainer<TorchBackend> trainer{train,
                                {.scaling = {.num_workers = 2},
                                 .run = {.name = "run",
                                         .storage_path = folder.path(),
                                         .checkpoint = std::move(checkpoint),
                                         .failure = {.max_failures = 1, .backoff = std::chrono::milliseconds{0}},
                                         .handle_signals = false}}};
  run.result = trainer.fit();
  CHECK(run.result.checkpoint()->metrics().number("epoch") == 7);
  return run;
}

}  // namespace

TEST_CASE("a worker that fails costs no epoch whose state was copied, and the parameters are those without a failure") {
  auto const undisturbed = held_run({}, -1);
  CHECK(undisturbed.result.checkpoints.size() == 8);
  auto const failed = held_run({.every = std::chrono::hours{1}}, 5);
  CHECK(failed.result.checkpoints.size() == 2);
  REQUIRE(failed.result.attempts.size() == 2);
  CHECK(failed.result.attempts[1].first_iteration == 5);
  REQUIRE(failed.parameters.size() == undisturbed.parameters.size());
  for (std::size_t i = 0; i < failed.parameters.size(); ++i)
    CHECK(torch::equal(failed.parameters[i], undisturbed.parameters[i]));
}

TEST_CASE("a hand-over that does nothing, between two epochs, keeps the state that was copied before") {
  TemporaryFolder const folder;
  struct Stopper : Callback {
    void on_start(RunInfo const& info) override { stop = info.request_stop; }
    std::function<void()> stop;
  };
  auto const stopper = std::make_shared<Stopper>();
  auto const train = [&](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return torch::nn::Linear{64, 2}; });
    auto shard = ctx.dataset_shard("train");
    for (auto epoch = 0; epoch < 2; ++epoch) {
      for (auto const& batch : shard.batches({.batch_size = 8, .epoch = epoch})) CHECK(batch.size() == 8);
      if (epoch == 0) {
        ctx.report(Epoch{epoch, 1.0}, save(model));
        continue;
      }
      ctx.barrier();  // both are behind their reports
      stopper->stop();
      while (!ctx.stop_requested()) ctx.barrier();
      ctx.hand_over(save(model));
      throw std::runtime_error{"as planned"};
    }
  };
  Trainer<TorchBackend> trainer{train,
                                {.scaling = {.num_workers = 2},
                                 .run = {.name = "run",
                                         .storage_path = folder.path(),
                                         .checkpoint = {.every = std::chrono::hours{1}},
                                         .handle_signals = false},
                                 .datasets = {{"train", small_images(32)}},
                                 .callbacks = {stopper}}};
  CHECK_THROWS_AS(trainer.fit(), TrainingFailed);
  auto const left = Result::from_path(folder.path() / "run");
  REQUIRE(left.checkpoint().has_value());
  CHECK(left.checkpoint()->metrics().number("epoch") == 0);
}
