// SPDX-License-Identifier: Apache-2.0
// Workers that fail and are started again within one fit().
#include <raytrain/trainer.hpp>

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/callback/csv.hpp>
#include <raytrain/callback/json_lines.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/process.hpp>

#include "minimal_run.hpp"

namespace {

// Epochs up to `epochs` with a checkpoint each; before the report of each of them `disturb` may throw.
auto epochs_disturbed_by(int epochs, std::function<void(TrainContext&, int)> disturb) {
  return [epochs, disturb = std::move(disturb)](TrainContext& ctx) {
    auto const first = ctx.checkpoint() ? std::stoi(text_in(*ctx.checkpoint())) + 1 : 0;
    for (auto epoch = first; epoch < epochs; ++epoch) {
      disturb(ctx, epoch);
      ctx.barrier();
      ctx.report(Epoch{epoch, 1.0 / (epoch + 1)},
                 ctx.world_rank() == Rank{0} ? draft(std::to_string(epoch)) : CheckpointDraft{});
    }
  };
}

auto config_that_restarts(TemporaryFolder const& folder, int max_failures, int workers = 2) -> MinimalConfig {
  return {.scaling = {.num_workers = workers},
          .run = {.name = "r",
                  .storage_path = folder.path(),
                  .failure = {.max_failures = max_failures, .backoff = std::chrono::milliseconds{0}}}};
}

auto epochs_in(std::vector<Report> const& reports) -> std::vector<int> {
  std::vector<int> epochs;
  for (auto const& report : reports) epochs.push_back(static_cast<int>(report.metrics.number("epoch").value()));
  return epochs;
}

class Watch final : public Callback {
 public:
  void on_start(RunInfo const&) override { ++starts; }
  void on_failure(ErrorInfo const& error) override { failures.push_back(error.happened); }
  void on_worker_start(Started const& worker) override {
    workers.push_back(worker);
    CHECK(std::this_thread::get_id() == owner);
  }
  void on_report(Report const& report, Metrics const&) override {
    auto const started = [&](Started const& it) { return it.rank == report.rank && it.attempt == report.attempt; };
    CHECK(std::ranges::count_if(workers, started) == 1);
  }
  void on_restart(AttemptInfo const& failed, std::optional<Checkpoint> const& resumed_from) override {
    attempts.push_back(failed);
    goes_on_after.push_back(resumed_from ? text_in(*resumed_from) : "nothing");
  }
  void on_finish(Result const&) override { ++ends; }

  std::thread::id owner = std::this_thread::get_id();
  int starts = 0;
  int ends = 0;
  std::vector<Started> workers;
  std::vector<std::string> failures;
  std::vector<AttemptInfo> attempts;
  std::vector<std::string> goes_on_after;
};

}  // namespace

TEST_CASE("callbacks are told of each worker's start in each attempt, before its reports, on the thread of fit()") {
  TemporaryFolder const folder;
  auto const watch = std::make_shared<Watch>();
  auto config = config_that_restarts(folder, 1);
  config.callbacks = {watch};
  auto const result = MinimalTrainer{epochs_disturbed_by(3,
                                                         [](TrainContext& ctx, int epoch) {
                                                           if (ctx.attempt() == Attempt{1} && epoch == 1 &&
                                                               ctx.world_rank() == Rank{1}) {
                                                             throw std::runtime_error{"as planned"};
                                                           }
                                                         }),
                                     config}
                          .fit();
  REQUIRE(result.attempts.size() == 2);
  auto const size = result.world_size.value;
  CHECK(watch->workers.size() == 2 * size);
  std::set<std::pair<Attempt, Rank>> all;
  for (auto const& worker : watch->workers) {
    all.emplace(worker.attempt, worker.rank);
    CHECK(worker.hostname == host_name());
    CHECK(worker.pid == ::getpid());
  }
  CHECK(all.size() == 2 * size);
  CHECK(result.warnings.empty());
}

TEST_CASE("workers go on from the newest checkpoint when one of them has thrown, and reach what undisturbed ones do") {
  TemporaryFolder const folder;
  auto const watch = std::make_shared<Watch>();
  auto config = config_that_restarts(folder, 1);
  config.callbacks = {watch};
  config.run.checkpoint.mode = CheckpointMode::sync;
  MinimalTrainer trainer{
      epochs_disturbed_by(5,
                          [](TrainContext& ctx, int epoch) {
                            if (ctx.attempt() == Attempt{1} && epoch == 3 && ctx.world_rank() == Rank{1}) {
                              throw std::runtime_error{"out of range"};
                            }
                          }),
      config};
  auto const result = trainer.fit();
  CHECK(result.state == RunState::finished);
  CHECK(result.error.empty());
  CHECK(epochs_in(result.history) == std::vector{0, 1, 2, 3, 4});
  CHECK(result.all_reports().size() == 10);
  CHECK(text_in(*result.checkpoint()) == "4");
  CHECK(result.checkpoints.size() == 5);

  REQUIRE(result.attempts.size() == 2);
  auto const& failed = result.attempts[0];
  CHECK(failed.attempt == Attempt{1});
  CHECK(failed.first_iteration == 0);
  CHECK(failed.last_iteration == 3);
  CHECK(failed.lost_reports == 0);
  CHECK(failed.lost_s >= 0);
  REQUIRE(failed.failures.size() == 1);
  CHECK(failed.failures[0].rank == Rank{1});
  CHECK_FALSE(failed.failures[0].host.empty());
  CHECK(failed.failures[0].happened == "out of range");
  CHECK(result.attempts[1].attempt == Attempt{2});
  CHECK(result.attempts[1].first_iteration == 3);
  CHECK(result.attempts[1].last_iteration == 5);
  CHECK(result.attempts[1].failures.empty());

  CHECK(watch->starts == 1);
  CHECK(watch->ends == 1);
  CHECK(watch->failures == std::vector<std::string>{"out of range"});
  REQUIRE(watch->attempts.size() == 1);
  CHECK(watch->attempts[0] == failed);
  CHECK(watch->goes_on_after == std::vector<std::string>{"2"});

  auto const read_back = Result::from_path(result.path);
  CHECK(read_back.state == RunState::finished);
  CHECK(epochs_in(read_back.history) == std::vector{0, 1, 2, 3, 4});
}

TEST_CASE(
    "workers begin anew when one has thrown before the first checkpoint, and what they repeat is counted as lost") {
  TemporaryFolder const folder;
  MinimalTrainer trainer{[](TrainContext& ctx) {
                           CHECK_FALSE(ctx.checkpoint().has_value());
                           for (auto epoch = 0; epoch < 3; ++epoch) {
                             ctx.report(Epoch{epoch, 0});
                             ctx.barrier();
                             if (ctx.attempt() == Attempt{1} && epoch == 1) throw std::runtime_error{"out of range"};
                           }
                         },
                         config_that_restarts(folder, -1)};
  auto const result = trainer.fit();
  CHECK(epochs_in(result.history) == std::vector{0, 1, 2});
  CHECK(result.all_reports().size() == 6);
  REQUIRE(result.attempts.size() == 2);
  CHECK(result.attempts[0].lost_reports == 2);
  CHECK(result.attempts[1].first_iteration == 0);
}

TEST_CASE("fit() throws the last failure when there were more of them than max_failures, with all attempts") {
  TemporaryFolder const folder;
  MinimalTrainer trainer{
      epochs_disturbed_by(9,
                          [](TrainContext& ctx, int) {
                            if (ctx.world_rank() != Rank{1}) return;
                            throw std::runtime_error{"attempt " + std::to_string(ctx.attempt().value)};
                          }),
      config_that_restarts(folder, 2)};
  try {
    trainer.fit();
    FAIL("did not throw");
  } catch (TrainingFailed const& failed) {
    REQUIRE(failed.failures().size() == 1);
    CHECK(failed.failures()[0].happened == "attempt 3");
    auto const& attempts = failed.result().attempts;
    REQUIRE(attempts.size() == 3);
    for (std::size_t i = 0; i < 3; ++i) {
      REQUIRE(attempts[i].failures.size() == 1);
      CHECK(attempts[i].failures[0].happened == "attempt " + std::to_string(i + 1));
    }
    contains(failed.result().warnings.at(0), "the workers are not started again: FailureConfig::max_failures is 2");
  }
  CHECK(Result::from_path(folder.path() / "r").state == RunState::errored);
}

TEST_CASE(
    "an attempt may begin with a report of other fields than the run's first one, as its later reports may have") {
  TemporaryFolder const folder;
  auto failures = std::make_shared<std::atomic<int>>(0);
  MinimalTrainer trainer{[failures](TrainContext& ctx) {
                           for (auto epoch = ctx.first_epoch(); epoch < 4; ++epoch) {
                             Metrics metrics{{"epoch", std::int64_t{epoch}}};
                             if (epoch % 3 == 0) metrics.set("val_loss", 0.5);  // in some epochs only
                             if (epoch == 1 && ctx.world_rank() == Rank{0} && failures->fetch_add(1) == 0)
                               throw std::runtime_error{"once"};
                             ctx.report(metrics, ctx.world_rank() == Rank{0} ? draft("") : CheckpointDraft{});
                           }
                         },
                         config_that_restarts(folder, 1)};
  auto const result = trainer.fit();
  CHECK(result.attempts.size() == 2);
  CHECK(epochs_in(result.history) == std::vector<int>{0, 1, 2, 3});
}

TEST_CASE("a start may begin with a report that lacks fields of the run's first one, or has more, and no other ones") {
  TemporaryFolder const folder;
  auto const report_with = [&](std::vector<std::string> const& fields) {
    return message_of([&] {
      MinimalTrainer{[&](TrainContext& ctx) {
                       Metrics metrics;
                       for (auto const& field : fields) metrics.set(field, 1.0);
                       ctx.report(metrics);
                     },
                     config_that_restarts(folder, 0, 1)}
          .fit();
    });
  };
  for (auto const& fields : std::vector<std::vector<std::string>>{{"a", "b"}, {"b"}, {"c", "b", "a"}, {"b", "a"}})
    CHECK(report_with(fields) == "(nothing was thrown)");
  contains(report_with({"a", "c"}), "it has the report fields a, b, and this report has a, c");
}

TEST_CASE("a restart whose checkpoints somebody has deleted does not begin anew") {
  TemporaryFolder const folder;
  auto config = config_that_restarts(folder, 1);
  config.run.checkpoint.mode = CheckpointMode::sync;
  MinimalTrainer trainer{
      epochs_disturbed_by(3,
                          [&](TrainContext& ctx, int epoch) {
                            if (epoch != 1) return;
                            ctx.barrier();
                            if (ctx.world_rank() != Rank{0}) return;
                            std::filesystem::remove_all(folder.path() / "r/checkpoints/checkpoint_000001");
                            throw std::runtime_error{"behind it"};
                          }),
      config};
  contains(message_of([&] { trainer.fit(); }), "it had checkpoints by its run.json, and there are none");
}

TEST_CASE("files and checkpoints by relative paths stay where they are while the training changes its folder") {
  TemporaryFolder const folder;
  TemporaryFolder const elsewhere;
  auto const before = std::filesystem::current_path();
  MinimalTrainer{epochs_disturbed_by(1, [](TrainContext&, int) {}), config_that_restarts(folder, 0)}.fit();
  std::filesystem::current_path(folder.path());
  auto config = config_that_restarts(folder, 1);
  config.run.name = "tuned";
  config.run.resume_from_checkpoint = "r/checkpoints/checkpoint_000001";
  config.callbacks = {std::make_shared<JsonLines>("log.jsonl"), std::make_shared<Csv>("log.csv")};
  auto failures = std::make_shared<std::atomic<int>>(0);
  MinimalTrainer trainer{[failures, &elsewhere](TrainContext& ctx) {
                           CHECK(ctx.begins_from_other_run());
                           std::filesystem::current_path(elsewhere.path());
                           if (ctx.world_rank() == Rank{0} && failures->fetch_add(1) == 0)
                             throw std::runtime_error{"once"};
                           ctx.report(Epoch{0, 1.0});
                         },
                         config};
  auto const result = message_of([&] { CHECK(trainer.fit().warnings.empty()); });
  std::filesystem::current_path(before);
  CHECK(result == "(nothing was thrown)");
  CHECK(std::filesystem::exists(folder.path() / "log.jsonl"));
  CHECK(std::filesystem::exists(folder.path() / "log.csv"));
}

TEST_CASE("NotRetryable ends a run that may fail any number of times") {
  TemporaryFolder const folder;
  MinimalTrainer trainer{[](TrainContext&) {
                           throw NotRetryable{"reading the licence", "it has expired"};
                         },
                         config_that_restarts(folder, -1)};
  auto const text = message_of([&] { trainer.fit(); });
  contains(text, "reading the licence: it has expired");
}

TEST_CASE(
    "a part of a checkpoint that a failed worker did not complete is gone, and the next attempt's is another one") {
  TemporaryFolder const folder;
  MinimalTrainer trainer{[](TrainContext& ctx) {
                           auto const first = ctx.attempt() == Attempt{1};
                           auto part = draft("attempt " + std::to_string(ctx.attempt().value));
                           if (ctx.world_rank() == Rank{1}) {
                             ctx.barrier();
                             if (first) throw std::runtime_error{"before its part"};
                             ctx.report(Epoch{}, CheckpointDraft{});
                             return;
                           }
                           ctx.report(Epoch{}, std::move(part));
                           ctx.barrier();
                         },
                         config_that_restarts(folder, 1)};
  auto const result = trainer.fit();
  REQUIRE(result.checkpoints.size() == 1);
  CHECK(text_in(result.checkpoints[0]) == "attempt 2");
  std::vector<std::string> names;
  for (auto const& entry : std::filesystem::directory_iterator{result.path / "checkpoints"}) {
    names.push_back(entry.path().filename());
  }
  CHECK(names == std::vector<std::string>{"checkpoint_000001"});
}

namespace {

struct CountedBackend : MinimalBackend {
  struct Config {
    std::vector<std::string>* calls = nullptr;
    bool fails_again = false;
  };

  explicit CountedBackend(Config const& config) : MinimalBackend{{}}, config_{config} {}
  void on_start(ScalingConfig const&) {
    config_.calls->push_back("on_start");
    if (config_.fails_again && config_.calls->size() > 1) throw std::runtime_error{"no port is free"};
  }
  void on_shutdown() noexcept { config_.calls->push_back("on_shutdown"); }

 private:
  Config config_;
};

}  // namespace

TEST_CASE("each attempt has a backend of its own, and one that does not start again ends the run") {
  for (auto const fails : {false, true}) {
    CAPTURE(fails);
    TemporaryFolder const folder;
    std::vector<std::string> calls;
    Trainer<CountedBackend> trainer{[](TrainContext& ctx) {
                                      if (ctx.attempt() == Attempt{1}) throw std::runtime_error{"out of range"};
                                    },
                                    {.run = {.name = "r",
                                             .storage_path = folder.path(),
                                             .failure = {.max_failures = 3, .backoff = std::chrono::milliseconds{0}}},
                                     .backend = {&calls, fails}}};
    auto const text = message_of([&] { trainer.fit(); });
    CHECK(calls == std::vector<std::string>{"on_start", "on_shutdown", "on_start", "on_shutdown"});
    if (fails) contains(text, "no port is free");
    if (!fails) CHECK(text == "(nothing was thrown)");
  }
}

TEST_CASE("a stop ends the wait before the next attempt, however long that is") {
  TemporaryFolder const folder;
  class StopLater final : public Callback {
   public:
    void on_start(RunInfo const& info) override { stop_ = info.request_stop; }
    void on_failure(ErrorInfo const&) override { stopper_ = std::jthread{stop_}; }

   private:
    std::function<void()> stop_;
    std::jthread stopper_;
  };
  auto config = config_that_restarts(folder, -1, 1);
  config.run.failure = {.max_failures = -1, .backoff = std::chrono::hours{24}, .max_backoff = std::chrono::hours{24}};
  config.callbacks = {std::make_shared<StopLater>()};
  MinimalTrainer trainer{[](TrainContext&) { throw std::runtime_error{"out of range"}; }, config};
  auto state = RunState::errored;  // where the stop came before the worker had ended
  try {
    state = trainer.fit().state;
  } catch (TrainingFailed const&) {
  }
  CHECK((state == RunState::aborted || state == RunState::errored));
}

TEST_CASE(
    "a damaged newest checkpoint is skipped by the next attempt, which goes on from the one before, and says so") {
  TemporaryFolder const folder;
  auto config = config_that_restarts(folder, 1, 1);
  config.run.checkpoint.mode = CheckpointMode::sync;
  MinimalTrainer trainer{epochs_disturbed_by(4,
                                             [&](TrainContext& ctx, int epoch) {
                                               if (ctx.attempt() != Attempt{1} || epoch != 2) return;
                                               std::filesystem::resize_file(
                                                   ctx.run_path() / "checkpoints/checkpoint_000002/state.txt", 0);
                                               throw std::runtime_error{"out of range"};
                                             }),
                         config};
  auto const result = trainer.fit();
  CHECK(result.state == RunState::finished);
  REQUIRE(result.attempts.size() == 2);
  CHECK(result.attempts[0].lost_reports == 1);
  CHECK(epochs_in(result.history) == std::vector{0, 1, 2, 3});
  CHECK(result.checkpoints.size() == 4);
  auto warned = false;
  for (auto const& text : result.warnings) warned = warned || text.find("checkpoint_000002") != std::string::npos;
  CHECK(warned);
}
