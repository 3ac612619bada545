// SPDX-License-Identifier: Apache-2.0
// Workers that hang, that are slow, and that only look like it.
#include <raytrain/trainer.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/core/error.hpp>
#include <raytrain/core/signs_of_life.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/preprocess/function_transformer.hpp>

#include "minimal_run.hpp"

namespace {

using std::chrono::milliseconds;

auto config_that_watches(TemporaryFolder const& folder, milliseconds hang_timeout) -> MinimalConfig {
  return {.scaling = {.num_workers = 2},
          .run = {.name = "r",
                  .storage_path = folder.path(),
                  .failure = {.max_failures = 1, .backoff = milliseconds{0}, .hang_timeout = hang_timeout}}};
}

// Calls it again and again for so long.
void repeat_for(milliseconds time, std::function<void()> const& call) {
  for (auto const end = SignsOfLife::Clock::now() + time; SignsOfLife::Clock::now() < end;) call();
}

void compute_until_stopped(TrainContext& ctx) {
  while (!ctx.stop_requested()) continue;
}

// The warnings with this text in them.
auto count_of(std::vector<std::string> const& warnings, std::string const& part) -> long {
  return std::ranges::count_if(warnings, [&](std::string const& text) { return text.find(part) != std::string::npos; });
}

// Of the first of two attempts, of which the second one has finished.
auto only_failure(Result const& result) -> ErrorInfo {
  CHECK(result.state == RunState::finished);
  REQUIRE(result.attempts.size() == 2);
  auto const& failures = result.attempts[0].failures;
  REQUIRE(failures.size() == 1);
  return failures[0];
}

std::atomic<int> times_prepared = 0;

// Hangs for two seconds when it is called first.
auto hang_once(Dataset const& rows) -> Dataset {
  if (times_prepared++ == 0) repeat_for(milliseconds{2000}, [] {});
  return rows;
}

// Keeps what is warned of, and lets a worker wait for it.
class Warned final : public Callback {
 public:
  auto on_warning(std::string_view text) -> bool override {
    std::scoped_lock const lock{mutex_};
    texts_.emplace_back(text);
    return true;
  }

  [[nodiscard]] auto has(std::string const& part) -> bool {
    std::scoped_lock const lock{mutex_};
    return count_of(texts_, part) > 0;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> texts_;
};

}  // namespace

TEST_CASE(
    "a function that hangs while the preprocessor changes rows makes its worker fail, and the next attempt goes on") {
  TemporaryFolder const folder;
  register_function("hang_once", hang_once);
  auto config = config_that_watches(folder, milliseconds{500});
  config.datasets = {{"train", Dataset::from_columns({{"x", std::vector<float>{1, 2, 3}}})}};
  config.preprocessor = FunctionTransformer{"hang_once"};
  MinimalTrainer trainer{[](TrainContext&) {}, config};
  times_prepared = 0;
  CHECK(only_failure(trainer.fit()).text().find("sign of life") != std::string::npos);
}

TEST_CASE("a worker that hangs has failed, the other one, which waits for it, has not") {
  for (auto const hanging : {Rank{0}, Rank{1}}) {
    CAPTURE(hanging.value);
    TemporaryFolder const folder;
    auto const result = MinimalTrainer{[&](TrainContext& ctx) {
                                         ctx.report(Epoch{0, 1});
                                         if (ctx.attempt() == Attempt{1} && ctx.world_rank() == hanging)
                                           compute_until_stopped(ctx);
                                         ctx.barrier();
                                       },
                                       config_that_watches(folder, milliseconds{500})}
                            .fit();
    auto const failure = only_failure(result);
    CHECK(failure.code == Errc::timed_out);
    CHECK(failure.rank == hanging);
    CAPTURE(failure.happened);
    CHECK(failure.happened == "it has shown no sign of life for 500 ms");
    CHECK(failure.remedy.starts_with("it computes, in "));
    CHECK(failure.remedy.ends_with(
        "; raise FailureConfig::hang_timeout, or call heartbeat() in long work, or announce it by expect()"));
  }
}

TEST_CASE(
    "a worker that reports, shows progress, takes batches, calls collectives, beats or has said so does not hang") {
  TemporaryFolder const folder;
  auto config = config_that_watches(folder, milliseconds{500});
  config.run.failure.max_failures = 0;
  config.scaling.num_workers = 1;
  config.datasets = {{"numbers", Dataset::from_columns({{"x", std::vector<float>(1000)}})}};
  auto const time = milliseconds{700};
  auto const result = MinimalTrainer{[&](TrainContext& ctx) {
                                       repeat_for(time, [&] { ctx.progress(1, 2); });
                                       repeat_for(time, [&] { ctx.barrier(); });
                                       repeat_for(time, [&] { ctx.heartbeat(); });
                                       repeat_for(time, [&] {
                                         auto shard = ctx.dataset_shard("numbers");
                                         for (auto const& batch : shard.batches({.batch_size = 100})) (void)batch;
                                       });
                                       std::thread{[&] { repeat_for(time, [&] { ctx.heartbeat(); }); }}.join();
                                       ctx.expect(2 * time);
                                       repeat_for(time, [] {});
                                       ctx.report(Epoch{0, 1});
                                     },
                                     config}
                          .fit();
  CHECK(result.state == RunState::finished);
  CHECK(count_of(result.warnings, "no sign of life") == 0);
}

TEST_CASE("workers that wait for each other outside of collectives, or in two of them, are ended") {
  TemporaryFolder const folder;
  auto const result = MinimalTrainer{[&](TrainContext& ctx) {
                                       auto const other = ctx.collective().duplicate();
                                       if (ctx.attempt() == Attempt{2}) return;
                                       auto& first = ctx.world_rank() == Rank{0} ? ctx.collective() : *other;
                                       auto& second = ctx.world_rank() == Rank{0} ? *other : ctx.collective();
                                       first.barrier();
                                       second.barrier();
                                     },
                                     config_that_watches(folder, milliseconds{500})}
                          .fit();
  REQUIRE(result.attempts.size() == 2);
  auto const& failures = result.attempts[0].failures;
  REQUIRE(!failures.empty());
  CAPTURE(failures[0].happened);
  CHECK(failures[0].code == Errc::timed_out);
  CHECK(failures[0].happened ==
        "it has shown no sign of life for 500 ms, as all others: they wait for each other in collectives");
}

TEST_CASE("a worker that waits for a slow callback to see its checkpoint has not failed, and says for what it waits") {
  class Slow final : public Callback {
    void on_checkpoint(Checkpoint const&) override {
      repeat_for(milliseconds{900}, [] {});
    }
  };
  TemporaryFolder const folder;
  auto config = config_that_watches(folder, milliseconds{500});
  config.run.checkpoint.mode = CheckpointMode::sync;
  config.callbacks = {std::make_shared<Slow>()};
  auto const result = MinimalTrainer{epochs_up_to(2), config}.fit();
  CHECK(result.state == RunState::finished);
  CHECK(result.attempts.size() == 1);
  CHECK(count_of(result.warnings, " ms for its checkpoints to be written, which FailureConfig::hang_timeout") > 0);
}

TEST_CASE("a worker that hangs in its own function that fills a checkpoint has failed") {
  TemporaryFolder const folder;
  auto const result = MinimalTrainer{[&](TrainContext& ctx) {
                                       auto const fill = [&](CheckpointDraft& draft) {
                                         if (ctx.attempt() == Attempt{1}) compute_until_stopped(ctx);
                                         draft.add("state", "whole");
                                       };
                                       ctx.report(Epoch{0, 1}, CheckpointDraft::replicated(fill));
                                       ctx.barrier();
                                     },
                                     config_that_watches(folder, milliseconds{500})}
                          .fit();
  auto const failure = only_failure(result);
  CHECK(failure.rank == Rank{0});
  CHECK(failure.happened == "it has shown no sign of life for 500 ms");
}

TEST_CASE("workers that evaluate in turns, and say so, do not fail by what one has waited for before") {
  TemporaryFolder const folder;
  auto config = config_that_watches(folder, milliseconds{500});
  config.run.failure.max_failures = 0;
  auto const result = MinimalTrainer{[](TrainContext& ctx) {
                                       for (auto const evaluating : {Rank{0}, Rank{1}}) {
                                         if (ctx.world_rank() == evaluating) {
                                           ctx.expect(std::chrono::seconds{20});
                                           repeat_for(milliseconds{800}, [] {});
                                         }
                                         for (int i = 0; i < 30; ++i) {
                                           repeat_for(milliseconds{10}, [] {});
                                           ctx.barrier();
                                         }
                                       }
                                     },
                                     config}
                          .fit();
  CHECK(result.state == RunState::finished);
}

TEST_CASE("without any setting, silence that is unusual is told while it lasts, and ends nothing") {
  TemporaryFolder const folder;
  auto config = config_that_watches(folder, milliseconds{0});
  config.run.failure.max_failures = 0;
  auto const warned = std::make_shared<Warned>();
  config.callbacks = {warned};
  auto const result = MinimalTrainer{[&](TrainContext& ctx) {
                                       repeat_for(milliseconds{2500}, [&] { ctx.heartbeat(); });
                                       ctx.barrier();
                                       if (ctx.world_rank() == Rank{1}) {
                                         while (!warned->has("rank 1 has shown no sign of life for ")) continue;
                                       }
                                       ctx.barrier();
                                     },
                                     config}
                          .fit();
  CHECK(result.state == RunState::finished);
  CHECK(count_of(result.warnings, "rank 1 has shown no sign of life for ") == 1);
  CHECK(count_of(result.warnings, "rank 0 has shown no sign of life for ") == 0);
  CHECK(count_of(result.warnings, "much longer than ever before: it computes") == 1);
}

TEST_CASE("a worker that the others wait for is told as a straggler, whichever of them it is") {
  for (auto const slow : {Rank{0}, Rank{1}}) {
    TemporaryFolder const folder;
    auto const result = MinimalTrainer{[&](TrainContext& ctx) {
                                         for (int epoch = 0; epoch < 4; ++epoch) {
                                           if (ctx.world_rank() == slow) repeat_for(milliseconds{150}, [] {});
                                           ctx.barrier();
                                           ctx.report(Epoch{epoch, 1});
                                         }
                                       },
                                       config_that_watches(folder, milliseconds{0})}
                            .fit();
    CAPTURE(slow.value);
    CHECK(count_of(result.warnings, "rank " + std::to_string(slow.value) + " on host ") == 1);
    CHECK(count_of(result.warnings, "times as long as the others for its own part of an iteration") == 1);
  }
}
