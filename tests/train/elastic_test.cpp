// SPDX-License-Identifier: Apache-2.0
// Runs whose number of workers changes while they train.
#include <raytrain/trainer.hpp>

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/testing/random_seed.hpp>

#include "../support/text_files.hpp"
#include "minimal_run.hpp"

namespace {

constexpr std::size_t all_rows = 240;  // times 12 they divide by any of 1 to 4 workers
constexpr int all_epochs = 3;

/// What all workers have trained on, by epoch and row.
class Ledger {
 public:
  void add(std::int64_t epoch, float row) {
    std::scoped_lock const lock{mutex_};
    ++counts_[{epoch, static_cast<int>(row)}];
  }

  [[nodiscard]] auto each_once() -> bool {
    std::scoped_lock const lock{mutex_};
    auto const once = std::ranges::all_of(counts_, [](auto const& entry) { return entry.second == 1; });
    return once && counts_.size() == all_rows * all_epochs;
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<std::int64_t, int>, int> counts_;
};

/// Trains on batches of 12; `step` is called after each, and before the worker looks whether it is to stop.
auto training_with(Ledger& ledger, std::function<void(TrainContext&, int epoch)> step) {
  return [&ledger, step = std::move(step)](TrainContext& ctx) {
    auto shard = ctx.dataset_shard("train");
    for (auto epoch = ctx.restore(shard); epoch < all_epochs; ++epoch) {
      for (auto const& batch : shard.batches({.batch_size = 12, .epoch = epoch})) {
        std::vector<float> row(batch.size());
        batch.gather<float>("row", row);
        for (auto const each : row) ledger.add(epoch, each);
        ctx.barrier();
        step(ctx, epoch);
        if (ctx.stop_requested()) ctx.hand_over(ctx.world_rank() == Rank{0} ? draft("state") : CheckpointDraft{});
      }
      ctx.barrier();
      ctx.report(Epoch{epoch, 1.0 / (epoch + 1)}, ctx.world_rank() == Rank{0} ? draft("state") : CheckpointDraft{});
    }
  };
}

auto row_numbers() -> Dataset {
  std::vector<float> row(all_rows);
  for (std::size_t i = 0; i < all_rows; ++i) row[i] = static_cast<float>(i);
  return Dataset::from_columns({{"row", row}});
}

auto elastic_config(TemporaryFolder const& folder, WorkerCount workers = {1, 4}) -> MinimalConfig {
  // A worker needs so many cores that the run begins with the fewest.
  return {.scaling = {.num_workers = workers, .resources_per_worker = {.cpus = 100'000}},
          .run = {.name = "r", .storage_path = folder.path()},
          .datasets = {{"train", row_numbers()}}};
}

/// Keeps all workers until they know that they are to stop.
void wait_for_stop(TrainContext& ctx) {
  while (!ctx.stop_requested()) ctx.barrier();
}

/// Stops the run as a first Ctrl-C would, from any thread.
struct StopWhenTold : Callback {
  void on_start(RunInfo const& info) override { stop = info.request_stop; }
  std::function<void()> stop;
};

auto sizes_of(Result const& result) -> std::vector<std::uint32_t> {
  std::vector<std::uint32_t> sizes;
  for (auto const& attempt : result.attempts) sizes.push_back(attempt.world_size.value);
  return sizes;
}

}  // namespace

TEST_CASE("workers change at any step, and each sample is trained on once in each epoch") {
  TemporaryFolder const folder;
  auto const seed = testing::random_seed();
  CAPTURE(seed);
  std::mt19937_64 random{seed};
  // One step of each attempt asks for another number of workers.
  std::vector<std::uint32_t> wanted;
  std::vector<int> steps;
  for (auto before = 1U; wanted.size() < 12;) {
    auto const next = static_cast<std::uint32_t>(1 + random() % 4);
    if (next == before) continue;
    wanted.push_back(before = next);
    steps.push_back(static_cast<int>(1 + random() % 3));
  }
  Ledger ledger;
  std::unique_ptr<MinimalTrainer> trainer;
  auto step_of = std::vector<int>(5, 0);  // by rank, in this attempt
  auto attempt_of = std::vector<std::uint64_t>(5, 0);
  auto const step = [&](TrainContext& ctx, int) {
    auto const rank = ctx.world_rank().value;
    auto const attempt = ctx.attempt().value;
    if (std::exchange(attempt_of[rank], attempt) != attempt) step_of[rank] = 0;
    if (attempt > wanted.size() || ++step_of[rank] != steps[attempt - 1]) return;
    if (rank == 0) trainer->resize(wanted[attempt - 1]);
    wait_for_stop(ctx);
  };
  trainer = std::make_unique<MinimalTrainer>(training_with(ledger, step), elastic_config(folder));
  auto const result = trainer->fit();
  CHECK(result.state == RunState::finished);
  CHECK(ledger.each_once());
  CHECK(result.error.empty());
  CHECK(result.history.size() == all_epochs);
  REQUIRE(result.attempts.size() > 2);
  for (std::size_t i = 1; i < result.attempts.size(); ++i) {
    CAPTURE(i);
    CHECK(result.attempts[i].world_size.value == wanted[i - 1]);
    CHECK(result.attempts[i - 1].failures.empty());
    CHECK(result.attempts[i - 1].lost_reports == 0);
  }
  CHECK(result.world_size == result.attempts.back().world_size);
}

TEST_CASE("SIGUSR1 makes it one worker more and SIGUSR2 one fewer, within what the settings allow") {
  TemporaryFolder const folder;
  Ledger ledger;
  std::unique_ptr<MinimalTrainer> trainer;
  std::vector<int> const signals{SIGUSR1, SIGUSR1, SIGUSR2};
  auto const step = [&](TrainContext& ctx, int epoch) {
    if (epoch > 0 || ctx.attempt().value > signals.size()) return;
    if (ctx.world_rank() == Rank{0}) ::kill(::getpid(), signals[ctx.attempt().value - 1]);
    wait_for_stop(ctx);
  };
  trainer = std::make_unique<MinimalTrainer>(training_with(ledger, step), elastic_config(folder, {1, 3}));
  auto const result = trainer->fit();
  CHECK(result.state == RunState::finished);
  CHECK(ledger.each_once());
  CHECK(sizes_of(result) == std::vector<std::uint32_t>{1, 2, 3, 2});
}

TEST_CASE("who is asked to stop in the middle of an epoch goes on at the very next sample in the next start") {
  TemporaryFolder const folder;
  Ledger ledger;
  auto steps = 0;
  auto config = elastic_config(folder, 1);
  config.callbacks = {std::make_shared<StopWhenTold>()};
  auto& stopper = static_cast<StopWhenTold&>(*config.callbacks.front());
  auto const step = [&](TrainContext& ctx, int) {
    if (++steps % 7 != 0) return;
    stopper.stop();
    wait_for_stop(ctx);
  };
  MinimalTrainer trainer{training_with(ledger, step), config};
  auto starts = 0;
  for (auto state = RunState::aborted; state == RunState::aborted; ++starts) {
    auto const result = trainer.fit();
    state = result.state;
    if (state == RunState::aborted && starts == 0) {
      CHECK(result.checkpoint()->is_handed_over());
      CHECK_FALSE(result.best_checkpoint("loss", ScoreOrder::min));
      CHECK(result.checkpoint()->position("train") == ShardPosition{0, 84});
    }
  }
  CHECK(starts > 5);
  CHECK(ledger.each_once());
}

TEST_CASE("a checkpoint that is handed over has the metrics of the report before it, and is none of the best") {
  TemporaryFolder const folder;
  Ledger ledger;
  auto config = elastic_config(folder, 1);
  config.run.checkpoint = {.num_to_keep = 1, .score_attribute = "loss", .score_order = ScoreOrder::min};
  config.callbacks = {std::make_shared<StopWhenTold>()};
  auto& stopper = static_cast<StopWhenTold&>(*config.callbacks.front());
  auto const step = [&](TrainContext& ctx, int epoch) {
    if (epoch < 1) return;
    stopper.stop();
    wait_for_stop(ctx);
  };
  auto const result = MinimalTrainer{training_with(ledger, step), config}.fit();
  REQUIRE(result.checkpoints.size() == 2);  // the best one, and the newest
  CHECK(result.checkpoints[1].is_handed_over());
  CHECK(metrics_cast<Epoch>(result.checkpoints[1].metrics()).epoch == 0);
  CHECK(result.checkpoints[1].training_iteration() == 1);
  CHECK(result.best_checkpoint("loss", ScoreOrder::min)->number().value == 1);
  CHECK(result.history.size() == 1);
}

TEST_CASE("a training function that hands nothing over goes on from the last checkpoint, with as many as are wanted") {
  TemporaryFolder const folder;
  std::unique_ptr<MinimalTrainer> trainer;
  std::vector<int> begins;  // of rank 0
  auto const train = [&](TrainContext& ctx) {
    auto const first = ctx.first_epoch();
    if (ctx.world_rank() == Rank{0}) begins.push_back(first);
    for (auto epoch = first; epoch < all_epochs; ++epoch) {
      if (epoch == 1 && ctx.attempt() == Attempt{1}) {
        if (ctx.world_rank() == Rank{0}) trainer->resize(3);
        wait_for_stop(ctx);
        return;
      }
      ctx.barrier();
      ctx.report(Epoch{epoch, 1}, ctx.world_rank() == Rank{0} ? draft("state") : CheckpointDraft{});
    }
  };
  trainer = std::make_unique<MinimalTrainer>(train, elastic_config(folder));
  auto const result = trainer->fit();
  CHECK(result.state == RunState::finished);
  CHECK(begins == std::vector<int>{0, 1});
  CHECK(sizes_of(result) == std::vector<std::uint32_t>{1, 3});
  CHECK(result.last_reports.size() == 3);
}

TEST_CASE("a failure while workers end for others counts as one, and as many as are wanted go on") {
  for (auto const max_failures : {0, 1}) {
    CAPTURE(max_failures);
    TemporaryFolder const folder;
    Ledger ledger;
    std::unique_ptr<MinimalTrainer> trainer;
    auto const step = [&](TrainContext& ctx, int epoch) {
      if (epoch != 1 || ctx.attempt() != Attempt{1}) return;
      trainer->resize(2);
      wait_for_stop(ctx);
      throw std::runtime_error{"at the worst time"};
    };
    auto config = elastic_config(folder);
    config.run.failure = {.max_failures = max_failures, .backoff = std::chrono::milliseconds{0}};
    trainer = std::make_unique<MinimalTrainer>(training_with(ledger, step), config);
    if (max_failures == 0) {
      contains(message_of([&] { trainer->fit(); }), "at the worst time");
      continue;
    }
    auto const result = trainer->fit();
    CHECK(result.state == RunState::finished);
    CHECK(sizes_of(result) == std::vector<std::uint32_t>{1, 2});
    REQUIRE(result.attempts[0].failures.size() == 1);
    CHECK(result.attempts[0].failures[0].happened == "at the worst time");
  }
}

TEST_CASE(
    "a stop that is asked for while workers change ends the run, and the next start goes on with the next sample") {
  TemporaryFolder const folder;
  Ledger ledger;
  std::unique_ptr<MinimalTrainer> trainer;
  auto config = elastic_config(folder);
  config.callbacks = {std::make_shared<StopWhenTold>()};
  auto& stopper = static_cast<StopWhenTold&>(*config.callbacks.front());
  auto asks = true;
  auto const step = [&](TrainContext& ctx, int epoch) {
    if (epoch != 1 || !std::exchange(asks, false)) return;
    trainer->resize(4);
    stopper.stop();
    wait_for_stop(ctx);
  };
  trainer = std::make_unique<MinimalTrainer>(training_with(ledger, step), config);
  CHECK(trainer->fit().state == RunState::aborted);
  auto const result = trainer->fit();
  CHECK(result.state == RunState::finished);
  CHECK(sizes_of(result) == std::vector<std::uint32_t>{1});
  CHECK(ledger.each_once());
}

TEST_CASE("callbacks and progress.jsonl tell of each change of the workers, and that it was no failure") {
  TemporaryFolder const folder;
  Ledger ledger;
  struct Watch : Callback {
    void on_restart(AttemptInfo const& before, std::optional<Checkpoint> const& resumed_from) override {
      changes.push_back(before);
      CHECK(resumed_from.value().is_handed_over());
    }
    void on_worker_start(Started const&) override { ++starts; }
    void on_failure(ErrorInfo const& error) override { FAIL(error.text()); }
    auto on_warning(std::string_view text) -> bool override {
      FAIL(std::string{text});
      return true;
    }
    std::vector<AttemptInfo> changes;
    int starts = 0;
  };
  auto const watch = std::make_shared<Watch>();
  auto config = elastic_config(folder);
  config.callbacks = {watch};
  std::unique_ptr<MinimalTrainer> trainer;
  auto const step = [&](TrainContext& ctx, int epoch) {
    if (epoch != 1 || ctx.attempt() != Attempt{1}) return;
    trainer->resize(2);
    wait_for_stop(ctx);
  };
  trainer = std::make_unique<MinimalTrainer>(training_with(ledger, step), config);
  auto const result = trainer->fit();
  REQUIRE(watch->changes.size() == 1);
  CHECK(watch->changes[0].world_size == WorldSize{1});
  CHECK(watch->changes[0].failures.empty());
  CHECK(watch->starts == 3);
  auto const text = read_text(result.path / "progress.jsonl");
  contains(text, "{\"resized_attempt\": 1, \"world_size\": 2, \"training_iteration\": 1, \"lost_reports\": 0,");
  CHECK(text.find("failed_attempt") == std::string::npos);
  CHECK(Result::from_path(result.path).history.size() == all_epochs);
}

TEST_CASE("a number of workers out of the range is refused with both, and so is one that nobody can heed") {
  TemporaryFolder const folder;
  Ledger ledger;
  std::unique_ptr<MinimalTrainer> trainer;
  std::vector<std::string> refusals;
  auto const step = [&](TrainContext& ctx, int epoch) {
    if (epoch > 0 || ctx.world_rank() != Rank{0} || !refusals.empty()) return;
    for (auto const workers : {0, 5}) refusals.push_back(message_of([&] { trainer->resize(workers); }));
  };
  trainer = std::make_unique<MinimalTrainer>(training_with(ledger, step), elastic_config(folder));
  contains(message_of([&] { trainer->resize(2); }), "Trainer::resize: no fit() of this trainer runs");
  CHECK(trainer->fit().attempts.size() == 1);
  REQUIRE(refusals.size() == 2);
  contains(refusals[0], "Trainer::resize: 0 workers are asked for, and the run may have from 1 to 4");
  contains(refusals[1], "5 workers are asked for");
  contains(message_of([&] { trainer->resize(2); }), "no fit() of this trainer runs");
}

TEST_CASE("a state is handed over only where a stop is agreed upon") {
  TemporaryFolder const folder;
  auto const train = [](TrainContext& ctx) { ctx.hand_over(draft("state")); };
  contains(message_of([&] {
             MinimalTrainer{train, elastic_config(folder, 1)}.fit();
           }),
           "TrainContext::hand_over: was called although nobody has asked for a stop");
}

TEST_CASE(
    "a run begins with as many workers as are asked for before they start, and of many wishes the last one counts") {
  struct AskAtStart : Callback {
    void on_start(RunInfo const& info) override {
      for (std::int64_t i = 0; i < 10'000; ++i) info.resize(1 + i % 4);
      info.resize(3);
    }
  };
  TemporaryFolder const folder;
  Ledger ledger;
  auto config = elastic_config(folder);
  config.callbacks = {std::make_shared<AskAtStart>()};
  auto const result = MinimalTrainer{training_with(ledger, [](TrainContext&, int) {}), config}.fit();
  CHECK(sizes_of(result) == std::vector<std::uint32_t>{3});
  CHECK(ledger.each_once());
}

TEST_CASE(
    "a state is handed over where a shard was made and no batch taken from it, and where the dataset is not split") {
  for (auto const takes_batches : {false, true}) {
    CAPTURE(takes_batches);
    TemporaryFolder const folder;
    auto config = elastic_config(folder, 1);
    config.data.datasets_to_split = {};
    config.callbacks = {std::make_shared<StopWhenTold>()};
    auto& stopper = static_cast<StopWhenTold&>(*config.callbacks.front());
    std::vector<float> first_rows;  // of each start
    auto const train = [&](TrainContext& ctx) {
      auto shard = ctx.dataset_shard("train");
      auto const epoch = ctx.restore(shard);
      if (takes_batches) {
        auto const batches = shard.batches({.batch_size = 12, .epoch = epoch, .shuffle = false});
        for (auto const& batch : batches) {
          std::vector<float> row(batch.size());
          batch.gather<float>("row", row);
          first_rows.push_back(row.front());
          break;
        }
      }
      stopper.stop();
      wait_for_stop(ctx);
      ctx.hand_over(draft("state"));
    };
    MinimalTrainer trainer{train, config};
    for (auto start = 0; start < 2; ++start) CHECK(trainer.fit().checkpoint().value().is_handed_over());
    if (takes_batches) CHECK(first_rows == std::vector<float>{0, 12});
  }
}
