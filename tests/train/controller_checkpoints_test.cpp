// SPDX-License-Identifier: Apache-2.0
// Of states that are copied and written later, or that cannot be written.
#include <raytrain/train/controller.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <doctest/doctest.h>

namespace {

using namespace raytrain;

// A controller whose two workers report checkpoints by their ordinals, as they do by `CheckpointConfig::every`.
class TwoWorkers {
 public:
  explicit TwoWorkers(RunPolicy policy = {}) : controller_{WorldSize{2}, std::move(policy), {}} {
    tell(RunEvent{RunBegins{}});
    for (std::uint32_t rank = 0; rank < 2; ++rank) say(Started{Rank{rank}, "node", 1, "127.0.0.1"});
  }

  void report(std::uint32_t rank, std::uint64_t checkpoint, std::optional<std::uint64_t> replaces = {}) {
    Report what;
    what.rank = Rank{rank};
    what.training_iteration = checkpoint + 1;
    what.checkpoint = CheckpointOrdinal{checkpoint};
    if (replaces) what.replaces = CheckpointOrdinal{*replaces};
    say(std::move(what));
  }
  void part(std::uint32_t rank, std::uint64_t checkpoint, std::optional<ErrorInfo> failure = {}) {
    CheckpointRef what;
    what.rank = Rank{rank};
    what.checkpoint = CheckpointOrdinal{checkpoint};
    what.failure = std::move(failure);
    say(std::move(what));
  }
  void say(WorkerMessage message) { tell(RunEvent{std::move(message)}); }
  void tell(RunEvent event) {
    for (auto& action : controller_.handle(std::move(event))) {
      if (auto const* const what = std::get_if<CommitCheckpoint>(&action)) {
        commits.push_back(what->checkpoint.value);
        CHECK(what->rank_0_report.training_iteration == what->checkpoint.value + 1);
        CHECK(what->training_iterations == std::vector(2, what->checkpoint.value + 1));
      }
      if (auto const* const what = std::get_if<DiscardCheckpoint>(&action)) discarded.push_back(what->checkpoint.value);
      if (auto* const what = std::get_if<RestartWorkers>(&action)) restart = std::move(*what);
      if (auto* const what = std::get_if<FinishRun>(&action)) end = std::move(*what);
      if (auto const* const what = std::get_if<TellWorkers>(&action)) {
        if (auto const* const told = std::get_if<CheckpointSettled>(&what->message))
          settled.push_back(told->checkpoint.value);
      }
      auto const* const record = std::get_if<RecordMessage>(&action);
      auto const* const warning = record == nullptr ? nullptr : std::get_if<Warning>(&record->what);
      if (warning != nullptr) warnings.push_back(warning->text);
    }
  }

  std::vector<std::uint64_t> commits;
  std::vector<std::uint64_t> discarded;
  std::vector<std::uint64_t> settled;  // for which workers are told that nobody need wait
  std::vector<std::string> warnings;
  std::optional<RestartWorkers> restart;
  std::optional<FinishRun> end;

 private:
  Controller controller_;
};

auto full_disk() -> ErrorInfo { return {Errc::io, "writing", "no space left", "free some"}; }

using Ordinals = std::vector<std::uint64_t>;

}  // namespace

TEST_CASE("parts of the states of different reports make no checkpoint, and are discarded before workers begin again") {
  TwoWorkers run{{.failure = {.max_failures = 1}}};
  for (std::uint64_t checkpoint = 0; checkpoint < 3; ++checkpoint) {
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      if (rank == 0 || checkpoint < 2)
        run.report(rank, checkpoint, checkpoint == 0 ? std::nullopt : std::optional{checkpoint - 1});
    }
  }
  run.say(Failed{ErrorInfo{Errc::exception, {}, "as planned"}.with_origin(Rank{1}, "node")});
  run.part(0, 2);  // has copied one more than rank 1
  run.part(1, 1);
  run.say(Finished{Rank{0}, true});
  CHECK(run.commits.empty());
  REQUIRE(run.restart.has_value());
  CHECK(run.restart->unfinished == std::vector{CheckpointOrdinal{1}, CheckpointOrdinal{2}});
}

TEST_CASE("a checkpoint of which parts are missing at the end of a run that is stopped is told of") {
  TwoWorkers run;
  run.report(0, 0);
  run.part(0, 0);
  run.tell(RunEvent{WorkerMessage{StopRequest{Rank{0}, 1}}});
  run.say(Finished{Rank{0}, true});
  run.say(Finished{Rank{1}, true});
  REQUIRE(run.end.has_value());
  CHECK(run.end->state == RunState::aborted);
  REQUIRE(!run.warnings.empty());
  CHECK(run.warnings.back() ==
        "a checkpoint is dropped, since not all parts of it were written before the workers ended");
}

TEST_CASE("checkpoints that one worker alone reports are warned of once while it trains, and discarded in the end") {
  TwoWorkers run;
  for (std::uint64_t checkpoint = 0; checkpoint < 12; ++checkpoint) {
    run.report(0, checkpoint);
    run.part(0, checkpoint);
    Report without;
    without.rank = Rank{1};
    without.training_iteration = checkpoint + 1;
    run.say(std::move(without));
    CHECK(run.warnings.empty() == (checkpoint < 8));
  }
  CHECK(run.warnings == std::vector<std::string>{
                            "the last checkpoints are not committed yet, since not every rank has reported its part of "
                            "them: rank 0 has reported 9, rank 1 has reported 0; unless that one is only slower, call "
                            "report with a checkpoint equally often on every rank"});
  CHECK(run.commits.empty());
  for (std::uint32_t rank = 0; rank < 2; ++rank) run.say(Finished{Rank{rank}, false});
  REQUIRE(run.end.has_value());
  CHECK(run.end->state == RunState::errored);
  CHECK(run.discarded == Ordinals{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
}

TEST_CASE("parts of different epochs make no checkpoint, where one worker has left out a report") {
  TwoWorkers run;
  auto const epoch = [&](std::uint32_t rank, std::uint64_t checkpoint, MetricValue number) {
    Report what;
    what.rank = Rank{rank};
    what.training_iteration = checkpoint + 1;
    what.checkpoint = CheckpointOrdinal{checkpoint};
    what.metrics.set("epoch", std::move(number));
    run.say(std::move(what));
    run.part(rank, checkpoint);
  };
  for (std::uint32_t rank = 0; rank < 2; ++rank) epoch(rank, 0, std::int64_t{0});
  for (std::uint32_t rank = 0; rank < 2; ++rank) epoch(rank, 1, 1 + 0.5 * rank);  // of an epoch's parts, perhaps
  epoch(0, 2, std::int64_t{2});
  epoch(1, 2, std::int64_t{3});
  CHECK(run.commits == Ordinals{0, 1});
  for (auto const committed : run.commits) run.tell(RunEvent{CheckpointDurable{{committed}, {committed + 1}}});
  for (std::uint32_t rank = 0; rank < 2; ++rank) run.say(Finished{Rank{rank}, true});
  REQUIRE(run.end.has_value());
  REQUIRE(run.end->failures.size() == 1);
  CHECK(run.end->failures[0].text() ==
        "reporting a checkpoint: rank 0's part is of epoch 2, and rank 1's part is of epoch 3; call report with a "
        "checkpoint equally often on every rank");
  CHECK(run.end->failures[0].rank == Rank{1});
}

TEST_CASE("states of which one worker hands its own over and another reports its own make no checkpoint") {
  TwoWorkers run{{.failure = {.max_failures = 1}}};
  for (std::uint32_t reporter = 0; reporter < 2; ++reporter) {
    Report hands_over;
    hands_over.rank = Rank{1 - reporter};
    hands_over.checkpoint = CheckpointOrdinal{reporter};
    hands_over.hands_over = true;
    run.report(reporter, reporter);
    run.say(hands_over);
    for (std::uint32_t rank = 0; rank < 2; ++rank) run.part(rank, reporter);
  }
  CHECK(run.commits.empty());
  run.say(Failed{ErrorInfo{Errc::exception, {}, "as planned"}.with_origin(Rank{1}, "node")});
  run.say(Finished{Rank{0}, true});
  REQUIRE(run.restart.has_value());
  CHECK(run.restart->unfinished == std::vector{CheckpointOrdinal{0}, CheckpointOrdinal{1}});
}

TEST_CASE(
    "what is copied is committed once all parts are there, with its own report, and those before it are forgotten") {
  TwoWorkers run{{.failure = {.max_failures = 1}}};
  for (std::uint64_t checkpoint = 0; checkpoint < 4; ++checkpoint) {
    run.part(1, checkpoint);  // without files, which is told at once
    for (std::uint32_t rank = 0; rank < 2; ++rank)
      run.report(rank, checkpoint, checkpoint == 2 ? std::optional{std::uint64_t{1}} : std::nullopt);
    if (checkpoint == 0 || checkpoint == 3) run.part(0, checkpoint);
  }
  CHECK(run.commits == Ordinals{0, 3});
  for (auto const number : {1U, 2U})
    run.tell(RunEvent{CheckpointDurable{CheckpointOrdinal{(number - 1) * 3}, CheckpointNumber{number}}});
  run.say(Failed{ErrorInfo{Errc::exception, {}, "as planned"}.with_origin(Rank{1}, "node")});
  run.say(Finished{Rank{0}, true});
  REQUIRE(run.restart.has_value());
  CHECK(run.restart->unfinished.empty());
}

TEST_CASE("a checkpoint of which a part could not be written is given up when all parts are there, and told of once") {
  TwoWorkers run;
  for (std::uint32_t rank = 0; rank < 2; ++rank) run.report(rank, 0);
  run.part(1, 0, full_disk());
  CHECK(run.settled.empty());
  run.part(0, 0, full_disk());
  CHECK(run.settled == Ordinals{0});
  CHECK(run.discarded == Ordinals{0});
  CHECK(run.commits.empty());
  REQUIRE(run.warnings.size() == 1);
  CHECK(run.warnings[0].ends_with("writing: no space left; free some"));
  for (std::uint32_t rank = 0; rank < 2; ++rank) run.say(Finished{Rank{rank}, false});
  REQUIRE(run.end.has_value());
  CHECK(run.end->state == RunState::errored);
  REQUIRE(run.end->failures.size() == 1);
  CHECK(run.end->failures[0] == full_disk().with_origin(Rank{1}, "node"));
}

TEST_CASE("a checkpoint that could not be committed is gone on without where that is asked for, and the disk's fault") {
  for (auto const code : {Errc::io, Errc::rank_mismatch}) {
    TwoWorkers run{{.checkpoint = {.on_failed_write = OnFailedWrite::warn}}};
    for (std::uint64_t checkpoint = 0; checkpoint < 2; ++checkpoint) {
      for (std::uint32_t rank = 0; rank < 2; ++rank) {
        run.report(rank, checkpoint);
        run.part(rank, checkpoint);
      }
    }
    auto error = full_disk();
    error.code = code;
    run.tell(RunEvent{CheckpointLost{CheckpointOrdinal{0}, error}});
    run.tell(RunEvent{CheckpointDurable{CheckpointOrdinal{1}, CheckpointNumber{1}}});
    for (std::uint32_t rank = 0; rank < 2; ++rank) run.say(Finished{Rank{rank}, false});
    REQUIRE(run.end.has_value());
    CHECK((run.end->state == RunState::finished) == (code == Errc::io));
    CHECK(run.settled == (code == Errc::io ? Ordinals{0, 1} : Ordinals{1}));
    CHECK(run.discarded == (code == Errc::io ? Ordinals{0} : Ordinals{}));
  }
}

TEST_CASE("a run whose last checkpoint was lost does not end well, also where the one before is committed after that") {
  TwoWorkers run{{.checkpoint = {.on_failed_write = OnFailedWrite::warn}}};
  for (std::uint64_t checkpoint = 0; checkpoint < 2; ++checkpoint) {
    for (std::uint32_t rank = 0; rank < 2; ++rank) run.report(rank, checkpoint);
    for (std::uint32_t rank = 0; rank < 2; ++rank)
      run.part(rank, checkpoint, checkpoint == 1 ? std::optional{full_disk()} : std::nullopt);
  }
  run.tell(CheckpointDurable{CheckpointOrdinal{0}, CheckpointNumber{1}});
  for (std::uint32_t rank = 0; rank < 2; ++rank) run.say(Finished{Rank{rank}, false});
  REQUIRE(run.end.has_value());
  CHECK(run.end->state == RunState::errored);
}

TEST_CASE("a state that all workers have replaced is forgotten, in whatever order their reports come") {
  TwoWorkers run{{.failure = {.max_failures = 1}}};
  run.report(0, 0);
  run.report(0, 1, 0);
  run.report(1, 0);
  run.report(1, 1, 0);
  for (std::uint32_t rank = 0; rank < 2; ++rank) run.part(rank, 1);
  run.report(0, 2);
  run.report(0, 3, 2);
  run.report(1, 2);
  run.report(1, 3, 2);
  run.tell(RunEvent{CheckpointDurable{CheckpointOrdinal{1}, CheckpointNumber{1}}});
  run.say(Failed{ErrorInfo{Errc::exception, {}, "as planned"}.with_origin(Rank{1}, "node")});
  run.say(Finished{Rank{0}, true});
  REQUIRE(run.restart.has_value());
  CHECK(run.restart->unfinished == std::vector{CheckpointOrdinal{3}});
}
