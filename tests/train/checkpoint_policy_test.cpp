// SPDX-License-Identifier: Apache-2.0
// Which reports of a run are written, on slow disks, on disks that fail, and when workers fail.
#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/checkpoint/checkpoint_store.hpp>
#include <raytrain/checkpoint/directory_store.hpp>
#include <raytrain/config/checkpoint_interval.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/testing/faulty_store.hpp>

#include "minimal_run.hpp"

namespace {

using namespace std::chrono_literals;
using testing::FaultyStore;
using Texts = std::vector<std::string>;

// The run's directory, with `before` each step of it.
auto store_with(FaultyStore::Before before) -> MakeCheckpointStore {
  return [before = std::move(before)](std::filesystem::path const& run_path) {
    return std::make_shared<FaultyStore>(std::make_shared<DirectoryStore>(run_path / "checkpoints"), before);
  };
}

auto policy_run(TemporaryFolder const& folder, CheckpointConfig checkpoint, int max_failures = 0) -> MinimalConfig {
  return {.scaling = {.num_workers = 2},
          .run = {.name = "run",
                  .storage_path = folder.path(),
                  .checkpoint = std::move(checkpoint),
                  .failure = {.max_failures = max_failures, .backoff = 0ms}}};
}

// What each checkpoint holds, which is also the epoch of its metrics, and from 0 on one below its training iteration.
auto epochs_in(Result const& result) -> Texts {
  Texts texts;
  for (auto const& checkpoint : result.checkpoints) {
    texts.push_back(text_in(checkpoint));
    CHECK(checkpoint.metrics().number("epoch") == std::stod(texts.back()));
    CHECK(std::to_string(checkpoint.training_iteration() - 1) == texts.back());
  }
  return texts;
}

// The epoch to begin with.
auto next_epoch(TrainContext& ctx) -> int { return ctx.checkpoint() ? std::stoi(text_in(*ctx.checkpoint())) + 1 : 0; }

// A state of which rank 0 has the only part.
auto state_of(int epoch, std::atomic<int>* copies = nullptr) -> CheckpointDraft {
  return CheckpointDraft::replicated([=](CheckpointDraft& part) {
    part.add("state.txt", std::to_string(epoch));
    if (copies != nullptr) ++*copies;
  });
}

void report_state(TrainContext& ctx, int epoch) { ctx.report(Epoch{epoch, 0}, state_of(epoch)); }

// A store whose first part is not written before somebody says so, and a callback by which a worker waits until it has
// been told that a checkpoint is committed.
class SlowDisk : public Callback {
 public:
  auto store() -> MakeCheckpointStore {
    return store_with([this](std::string_view step) {
      if (step == "write_part" && !std::exchange(is_slow_, true)) may_write_.get_future().wait();
    });
  }
  void let_write() { may_write_.set_value(); }

  // Rank 0's, once.
  void wait_committed(TrainContext& ctx) {
    is_committed_.get_future().wait();
    ctx.progress(1, 1);  // handled after workers are told of the checkpoint
    is_told_.get_future().wait();
  }

  void on_checkpoint(Checkpoint const&) override {
    if (!std::exchange(was_committed_, true)) is_committed_.set_value();
  }
  void on_progress(Progress const&) override { is_told_.set_value(); }

 private:
  std::promise<void> may_write_;
  std::promise<void> is_committed_;
  std::promise<void> is_told_;
  bool is_slow_ = false;
  bool was_committed_ = false;
};

}  // namespace

TEST_CASE("every third report is written and the last one, and all are reported once") {
  TemporaryFolder const folder;
  auto const train = [](TrainContext& ctx) {
    for (auto epoch = next_epoch(ctx); epoch < 8; ++epoch) report_state(ctx, epoch);
  };
  auto const result = MinimalTrainer{train, policy_run(folder, {.every = CheckpointInterval::reports(3)})}.fit();
  CHECK(epochs_in(result) == Texts{"2", "5", "7"});
  CHECK(result.state == RunState::finished);
  CHECK(result.warnings.empty());
  CHECK(result.history.size() == 8);
  CHECK(result.all_reports().size() == 16);
}

TEST_CASE("each rank's part is of the same report, also of those that are held") {
  TemporaryFolder const folder;
  auto const train = [](TrainContext& ctx) {
    for (auto epoch = 0; epoch < 8; ++epoch) {
      CheckpointDraft part;
      part.add("epoch.txt", std::to_string(epoch)).per_rank();
      ctx.report(Epoch{epoch, 0}, std::move(part));
    }
  };
  for (auto const mode : {CheckpointMode::async, CheckpointMode::sync}) {
    auto config = policy_run(folder, {.mode = mode, .every = CheckpointInterval::reports(3)});
    config.run.resume = Resume::fresh;
    auto const result = MinimalTrainer{train, config}.fit();
    Texts texts;
    for (auto const& checkpoint : result.checkpoints) {
      for (auto const* const rank : {"rank_0000", "rank_0001"}) {
        texts.emplace_back(text_of(checkpoint.read(std::string{rank} + "/epoch.txt")));
        CHECK(std::to_string(checkpoint.training_iteration() - 1) == texts.back());
      }
    }
    CHECK(texts == Texts{"2", "2", "5", "5", "7", "7"});
  }
}

TEST_CASE("an automatic interval writes the first state and the last one of a run that is short and has no failure") {
  TemporaryFolder const folder;
  auto const train = [](TrainContext& ctx) {
    for (auto epoch = 0; epoch < 50; ++epoch) report_state(ctx, epoch);
  };
  auto const result =
      MinimalTrainer{train, policy_run(folder, {.every = CheckpointInterval::automatic(std::chrono::hours{1'000'000})})}
          .fit();
  CHECK(epochs_in(result) == Texts{"0", "49"});
}

TEST_CASE("an automatic interval goes by the failures that the run has seen") {
  TemporaryFolder const folder;
  struct Counter : Callback {
    std::atomic<int> checkpoints{0};
    void on_checkpoint(Checkpoint const&) override { ++checkpoints; }
  };
  auto const counter = std::make_shared<Counter>();
  // By what it was told the second checkpoint of an attempt would come after minutes.
  auto const train = [counter](TrainContext& ctx) {
    auto epoch = next_epoch(ctx);
    report_state(ctx, epoch++);
    if (ctx.attempt() == Attempt{1}) throw std::runtime_error{"as planned"};
    auto const before = counter->checkpoints.load();
    for (bool goes_on = true; goes_on; goes_on = ctx.broadcast(counter->checkpoints < before + 3))
      report_state(ctx, epoch++);
  };
  auto config = policy_run(folder, {.every = CheckpointInterval::automatic(std::chrono::hours{1'000'000})}, 1);
  config.callbacks = {counter};
  auto const result = MinimalTrainer{train, config}.fit();
  CHECK(result.attempts.size() == 2);
  CHECK(counter->checkpoints >= 4);
}

TEST_CASE("a run that is stopped has written the state of its last report, and goes on from there") {
  TemporaryFolder const folder;
  struct Stop : Callback {
    std::function<void()> stop;
    void on_start(RunInfo const& info) override { stop = info.request_stop; }
    void on_report(Report const& report, Metrics const&) override {
      if (report.rank == Rank{0} && report.training_iteration == 4) stop();
    }
  };
  auto const train = [](TrainContext& ctx) {
    for (auto epoch = next_epoch(ctx);; ++epoch) report_state(ctx, epoch);
  };
  auto config = policy_run(folder, {.every = 24h});
  config.callbacks = {std::make_shared<Stop>()};
  auto const result = MinimalTrainer{train, config}.fit();
  CHECK(result.state == RunState::aborted);
  CHECK(result.history.size() >= 4);
  CHECK(epochs_in(result) == Texts{std::to_string(result.history.size() - 1)});
}

TEST_CASE(
    "workers that end since one of them has failed write the state of their last report, the one that failed too") {
  for (auto const failing : {Rank{0}, Rank{1}}) {
    CAPTURE(failing.value);
    TemporaryFolder const folder;
    auto const train = [&](TrainContext& ctx) {
      for (auto epoch = next_epoch(ctx); epoch < 10; ++epoch) {
        if (epoch == 6 && ctx.attempt() == Attempt{1} && ctx.world_rank() == failing)
          throw std::runtime_error{"as planned"};
        CheckpointDraft part;
        if (ctx.world_rank() == Rank{0}) part.add("state.txt", std::to_string(epoch));
        part.add("rank" + std::to_string(ctx.world_rank().value), std::to_string(epoch));
        ctx.report(Epoch{epoch, 0}, std::move(part));
      }
    };
    auto const result = MinimalTrainer{train, policy_run(folder, {.every = CheckpointInterval::reports(4)}, 1)}.fit();
    CHECK(epochs_in(result) == Texts{"3", "5", "9"});
    REQUIRE(result.attempts.size() == 2);
    CHECK(result.attempts[0].lost_reports == 0);
    CHECK(result.attempts[1].first_iteration == 6);
  }
}

TEST_CASE("a checkpoint that one rank alone reports is an error, not a hang, where ranks agree on what is written") {
  for (CheckpointConfig const& checkpoint :
       {CheckpointConfig{.every = 1h}, CheckpointConfig{.when_busy = WhenBusy::skip}}) {
    TemporaryFolder const folder;
    auto const train = [](TrainContext& ctx) {
      if (ctx.world_rank() == Rank{0}) report_state(ctx, 0);
    };
    MinimalTrainer trainer{train, policy_run(folder, checkpoint)};
    contains(message_of([&] { trainer.fit(); }), "call report with a checkpoint equally often on every rank");
  }
}

TEST_CASE("on a slow disk states are skipped without a copy until the last checkpoint is committed") {
  TemporaryFolder const folder;
  auto const disk = std::make_shared<SlowDisk>();
  std::atomic<int> copies{0};
  auto const train = [&](TrainContext& ctx) {
    for (auto epoch = 0; epoch < 6; ++epoch) {
      if (epoch == 5 && ctx.world_rank() == Rank{0}) {
        CHECK(copies == 1);
        disk->let_write();
        disk->wait_committed(ctx);
      }
      ctx.report(Epoch{epoch, 0}, state_of(epoch, &copies));
    }
  };
  auto config = policy_run(folder, {.when_busy = WhenBusy::skip, .store = disk->store()});
  config.callbacks = {disk};
  auto const result = MinimalTrainer{train, config}.fit();
  CHECK(epochs_in(result) == Texts{"0", "5"});
  CHECK(result.history.size() == 6);
  CHECK(copies == 2);
}

TEST_CASE("on a slow disk a state replaces the one that waits, and the newest is written in the end") {
  TemporaryFolder const folder;
  auto const disk = std::make_shared<SlowDisk>();
  std::atomic<int> copies{0};
  auto const train = [&](TrainContext& ctx) {
    for (auto epoch = 0; epoch < 5; ++epoch) ctx.report(Epoch{epoch, 0}, state_of(epoch, &copies));
    if (ctx.world_rank() == Rank{0}) disk->let_write();
  };
  auto config = policy_run(folder, {.when_busy = WhenBusy::replace, .store = disk->store()});
  auto const result = MinimalTrainer{train, config}.fit();
  CHECK(epochs_in(result) == Texts{"0", "4"});
  CHECK(result.history.size() == 5);
  CHECK(copies == 5);
}

TEST_CASE("on a slow disk all states are written in order, unless told otherwise") {
  TemporaryFolder const folder;
  auto const disk = std::make_shared<SlowDisk>();
  auto const train = [&](TrainContext& ctx) {
    for (auto epoch = 0; epoch < 6; ++epoch) {
      if (epoch == 1 && ctx.world_rank() == Rank{0}) disk->let_write();
      report_state(ctx, epoch);
    }
  };
  auto const result =
      MinimalTrainer{train, policy_run(folder, {.every = CheckpointInterval::reports(1), .store = disk->store()})}
          .fit();
  CHECK(epochs_in(result) == Texts{"0", "1", "2", "3", "4", "5"});
}
