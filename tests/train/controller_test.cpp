// SPDX-License-Identifier: Apache-2.0
#include <raytrain/train/controller.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <raytrain/testing/random_seed.hpp>

#include "controller_events.hpp"

using namespace raytrain;
using namespace raytrain::testing;

TEST_CASE("a run is scheduling until the last worker has started") {
  Controller controller{WorldSize{2}, {}, {}};
  CHECK(controller.state() == RunState::initializing);
  CHECK(find<LaunchWorkers>(controller.handle(RunEvent{RunBegins{}})) != nullptr);
  controller.handle(RunEvent{WorkerMessage{Started{Rank{1}, "node", 1, "127.0.0.1"}}});
  CHECK(controller.state() == RunState::scheduling);
  controller.handle(RunEvent{WorkerMessage{Started{Rank{0}, "node", 1, "127.0.0.1"}}});
  CHECK(controller.state() == RunState::running);
}

TEST_CASE(
    "what a worker of another attempt says of itself changes nothing, and workers are told in the controller's own "
    "attempt") {
  Controller controller{WorldSize{1}, {.failure = {.max_failures = 1}}, {}};
  start(controller, 1);
  controller.handle(RunEvent{WorkerMessage{failure(Rank{0}, "out of range")}});
  controller.handle(RunEvent{RestartDue{}});
  auto const say = [&](auto message, Attempt attempt) -> std::vector<RunAction> const& {
    message.attempt = attempt;
    return controller.handle(RunEvent{WorkerMessage{std::move(message)}});
  };
  for (auto const other : {Attempt{1}, Attempt{3}}) {
    CHECK(say(Started{Rank{0}, "node", 1, "127.0.0.1"}, other).empty());
    CHECK(say(std::get<Report>(std::get<WorkerMessage>(report(Rank{0}, 1))), other).empty());
    CHECK(say(std::get<CheckpointRef>(std::get<WorkerMessage>(part(Rank{0}, 0))), other).empty());
    CHECK(say(Progress{Rank{0}, 1, 2, {}}, other).empty());
    CHECK(say(failure(Rank{0}, "late"), other).empty());
    CHECK(say(Finished{Rank{0}, false}, other).empty());
    CHECK(controller.state() == RunState::scheduling);
  }
  say(Started{Rank{0}, "node", 1, "127.0.0.1"}, Attempt{2});
  CHECK(controller.state() == RunState::running);
  auto const* const tell = find<TellWorkers>(say(StopRequest{Rank{0}, 1}, Attempt{1}));
  REQUIRE(tell != nullptr);
  CHECK(tell->message == ControllerMessage{Stop{false, Attempt{2}, false, true}});
  CHECK(find<FinishRun>(say(Finished{Rank{0}, false}, Attempt{2})) != nullptr);
}

TEST_CASE("workers are started again once all have ended and every commit is done, as often as max_failures says") {
  Controller controller{WorldSize{2}, {.failure = {.max_failures = 1}}, {}};
  start(controller, 2);
  for (std::uint32_t rank = 0; rank < 2; ++rank) controller.handle(report(Rank{rank}, 1, 0));
  controller.handle(part(Rank{0}, 0));
  CHECK(find<CommitCheckpoint>(controller.handle(part(Rank{1}, 0))) != nullptr);
  controller.handle(report(Rank{0}, 2, 1));
  CHECK(aborts(controller.handle(RunEvent{WorkerMessage{failure(Rank{1}, "out of range")}})));
  CHECK(find<RestartWorkers>(controller.handle(RunEvent{WorkerMessage{Finished{Rank{0}, true}}})) == nullptr);
  auto const& durable = controller.handle(RunEvent{CheckpointDurable{CheckpointOrdinal{0}, CheckpointNumber{1}}});
  auto const* const again = find<RestartWorkers>(durable);
  REQUIRE(again != nullptr);
  CHECK(controller.state() == RunState::restarting);
  REQUIRE(again->failures.size() == 1);
  CHECK(again->failures[0].text() == "out of range");
  CHECK(again->unfinished == std::vector{CheckpointOrdinal{1}});
  CHECK(again->wait <= FailureConfig{}.backoff);

  auto const* const launch = find<LaunchWorkers>(controller.handle(RunEvent{RestartDue{1}}));
  REQUIRE(launch != nullptr);
  CHECK(launch->attempt == Attempt{2});
  CHECK(launch->first_checkpoint == CheckpointOrdinal{2});
  auto late = failure(Rank{1}, "again");
  late.attempt = Attempt{2};
  controller.handle(RunEvent{WorkerMessage{late}});
  Finished ended{Rank{0}, true};
  ended.attempt = Attempt{2};
  auto const& actions = controller.handle(RunEvent{WorkerMessage{ended}});
  REQUIRE(find_notice<Warning>(actions) != nullptr);
  CHECK(find_notice<Warning>(actions)->text ==
        "the workers are not started again: FailureConfig::max_failures is 1; raise it where more may come");
  REQUIRE(find<FinishRun>(actions) != nullptr);
  CHECK(find<FinishRun>(actions)->state == RunState::errored);
  REQUIRE(find<FinishRun>(actions)->failures.size() == 1);
  CHECK(find<FinishRun>(actions)->failures[0].text() == "again");
}

TEST_CASE("errors that would come again, and those of no worker, end a run that may fail any number of times") {
  auto const last_actions = [](Failed failed) {
    Controller controller{WorldSize{1}, {.failure = {.max_failures = -1}}, {}};
    start(controller, 1);
    auto const of_worker = failed.error.rank.has_value();
    auto actions = controller.handle(RunEvent{WorkerMessage{std::move(failed)}});
    if (!of_worker) actions = controller.handle(RunEvent{WorkerMessage{Finished{Rank{0}, true}}});
    return actions;
  };
  for (auto const code :
       {Errc::invalid_config, Errc::invalid_call, Errc::invalid_report, Errc::foreign_run, Errc::not_retryable}) {
    CAPTURE(to_string(code));
    auto const actions = last_actions(Failed{ErrorInfo{code, {}, "wrong"}.with_origin(Rank{0}, "node")});
    CHECK(find<RestartWorkers>(actions) == nullptr);
    CHECK(find<FinishRun>(actions) != nullptr);
    CHECK(find_notice<Warning>(actions)->text.find(to_string(code)) != std::string::npos);
  }
  auto const actions = last_actions(failure({}, "a critical callback"));
  CHECK(find<FinishRun>(actions) != nullptr);
  CHECK(find_notice<Warning>(actions)->text.find("what has failed is not a worker") != std::string::npos);
  CHECK(find<RestartWorkers>(last_actions(failure(Rank{0}, "out of range"))) != nullptr);
}

TEST_CASE("only an attempt that finds a file damaged which nobody had verified before is not counted") {
  struct Second {
    bool is_verified = false;
    Errc code = Errc::corrupt_checkpoint;
    bool has_committed = false;
    bool restarts = false;
  };
  for (auto const& second : {Second{.restarts = true}, Second{.is_verified = true}, Second{.code = Errc::io},
                             Second{.has_committed = true}}) {
    CAPTURE(second.is_verified);
    CAPTURE(second.has_committed);
    CAPTURE(to_string(second.code));
    Controller controller{WorldSize{1}, {.failure = {.max_failures = 1}}, {}};
    start(controller, 1);
    controller.handle(RunEvent{WorkerMessage{failure(Rank{0}, "out of range")}});
    controller.handle(RunEvent{RestartDue{3, {}, second.is_verified}});
    auto const say = [&](auto message) {
      message.attempt = Attempt{2};
      return controller.handle(RunEvent{WorkerMessage{std::move(message)}});
    };
    if (second.has_committed) {
      say(std::get<Report>(std::get<WorkerMessage>(report(Rank{0}, 4, 0))));
      say(std::get<CheckpointRef>(std::get<WorkerMessage>(part(Rank{0}, 0))));
      controller.handle(RunEvent{CheckpointDurable{CheckpointOrdinal{0}, CheckpointNumber{4}}});
    }
    auto failed = failure(Rank{0}, "other bytes");
    failed.error.code = second.code;
    auto const actions = say(std::move(failed));
    CHECK((find<RestartWorkers>(actions) != nullptr) == second.restarts);
    CHECK((find<FinishRun>(actions) == nullptr) == second.restarts);
  }
}

TEST_CASE("the same error at the same step for the third time in a row ends the run, and at another step it does not") {
  for (auto const moves : {false, true}) {
    CAPTURE(moves);
    Controller controller{WorldSize{1}, {.failure = {.max_failures = -1}}, {}};
    controller.handle(RunEvent{RunBegins{4}});
    std::vector<RunAction> actions;
    for (std::uint64_t attempt = 1; attempt <= 3; ++attempt) {
      CAPTURE(attempt);
      CHECK(controller.state() == RunState::scheduling);
      if (moves) {
        auto event = report(Rank{0}, 4 + attempt);
        std::get<Report>(std::get<WorkerMessage>(event)).attempt = Attempt{attempt};
        controller.handle(std::move(event));
      }
      auto failed = failure(Rank{0}, "out of range");
      failed.attempt = Attempt{attempt};
      actions = controller.handle(RunEvent{WorkerMessage{std::move(failed)}});
      controller.handle(RunEvent{RestartDue{4}});
    }
    CHECK((find<RestartWorkers>(actions) != nullptr) == moves);
    if (moves) continue;
    CHECK(find_notice<Warning>(actions)->text.find("the same error has come 3 times in a row, each time after report 4 "
                                                   "of rank 0") != std::string::npos);
    CHECK(find<FinishRun>(actions) != nullptr);
  }
}

TEST_CASE("runs of other seeds wait otherwise before workers are started again, and those of the same seed alike") {
  auto const wait_of = [](std::uint64_t seed) {
    Controller controller{WorldSize{1}, {.failure = {.max_failures = 1}, .wait_seed = seed}, {}};
    start(controller, 1);
    auto const* const again = find<RestartWorkers>(controller.handle(RunEvent{WorkerMessage{failure(Rank{0}, "x")}}));
    REQUIRE(again != nullptr);
    return again->wait;
  };
  std::set<std::chrono::milliseconds> waits;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    CHECK(wait_of(seed) == wait_of(seed));
    waits.insert(wait_of(seed));
  }
  CHECK(waits.size() > 4);
}

TEST_CASE("a stop while workers wait to be started again ends the run as aborted, and one before it as failed") {
  Controller controller{WorldSize{1}, {.failure = {.max_failures = 3}}, {}};
  start(controller, 1);
  CHECK(find<RestartWorkers>(controller.handle(RunEvent{WorkerMessage{failure(Rank{0}, "x")}})) != nullptr);
  auto const* const finish = find<FinishRun>(controller.handle(stop_request()));
  REQUIRE(finish != nullptr);
  CHECK(finish->state == RunState::aborted);
  CHECK(finish->failures.empty());
  CHECK(controller.handle(RunEvent{RestartDue{}}).empty());

  Controller stopped{WorldSize{1}, {.failure = {.max_failures = 3}}, {}};
  start(stopped, 1);
  stopped.handle(stop_request());
  auto const* const failed = find<FinishRun>(stopped.handle(RunEvent{WorkerMessage{failure(Rank{0}, "x")}}));
  REQUIRE(failed != nullptr);
  CHECK(failed->state == RunState::errored);
}

TEST_CASE("workers that cannot be launched again end the run by what hindered them") {
  Controller controller{WorldSize{2}, {.failure = {.max_failures = 3}}, {}};
  start(controller, 2);
  controller.handle(RunEvent{WorkerMessage{failure(Rank{0}, "x")}});
  controller.handle(RunEvent{WorkerMessage{Finished{Rank{1}, true}}});
  controller.handle(RunEvent{RestartDue{}});
  auto const& actions = controller.handle(RunEvent{LaunchFailed{failure({}, "no thread").error}});
  auto const* const finish = find<FinishRun>(actions);
  REQUIRE(finish != nullptr);
  CHECK(finish->state == RunState::errored);
  REQUIRE(finish->failures.size() == 1);
  CHECK(finish->failures[0].text() == "no thread");
}

TEST_CASE("another number of workers goes on when all have ended, by no failure and at once") {
  Controller controller{
      WorldSize{2}, {.workers = {WorldSize{1}, WorldSize{4}, WorldSize{2}}, .room = WorldSize{3}}, {}};
  CHECK(controller.handle(RunEvent{ResizeAsked{2, false}}).empty());
  start(controller, 2);
  CHECK(controller.handle(RunEvent{ResizeAsked{2, false}}).empty());
  auto const& asked = controller.handle(RunEvent{ResizeAsked{5, true}});  // more than there is room for
  CHECK(controller.state() == RunState::resizing);
  REQUIRE(find<TellWorkers>(asked) != nullptr);
  CHECK(find<TellWorkers>(asked)->message == ControllerMessage{Stop{false, Attempt{1}, true}});
  CHECK(find<ArmGrace>(asked)->grace == ArmGrace::Grace::to_report);
  CHECK(controller.handle(RunEvent{ResizeAsked{4, false}}).empty());
  controller.handle(RunEvent{WorkerMessage{Finished{Rank{0}, true}}});
  auto const* const again = find<RestartWorkers>(controller.handle(RunEvent{WorkerMessage{Finished{Rank{1}, true}}}));
  REQUIRE(again != nullptr);
  CHECK(again->failures.empty());
  CHECK(again->wait == std::chrono::milliseconds{0});
  auto const* const launch = find<LaunchWorkers>(controller.handle(RunEvent{RestartDue{7, WorldSize{3}}}));
  REQUIRE(launch != nullptr);
  CHECK(launch->attempt == Attempt{2});
  CHECK(launch->world_size == WorldSize{3});
}

TEST_CASE("workers that have all returned when another number is asked for leave nothing to go on with") {
  Controller controller{
      WorldSize{1}, {.workers = {WorldSize{1}, WorldSize{4}, WorldSize{1}}, .room = WorldSize{4}}, {}};
  start(controller, 1);
  controller.handle(RunEvent{ResizeAsked{4, false}});
  auto const* const finish = find<FinishRun>(controller.handle(RunEvent{WorkerMessage{Finished{Rank{0}, false}}}));
  REQUIRE(finish != nullptr);
  CHECK(finish->state == RunState::finished);
}

TEST_CASE("the grace of a change of the workers tears nobody out of a run that a callback finishes") {
  Controller controller{
      WorldSize{1}, {.workers = {WorldSize{1}, WorldSize{4}, WorldSize{1}}, .room = WorldSize{4}}, {}};
  start(controller, 1);
  CHECK(find<ArmGrace>(controller.handle(RunEvent{ResizeAsked{2, false}})) != nullptr);
  controller.handle(RunEvent{CallbackStop{true}});
  CHECK(controller.handle(RunEvent{GraceOver{}}).empty());
  auto const& asked = controller.handle(stop_request());
  CHECK(find<ArmGrace>(asked) != nullptr);
  CHECK(aborts(controller.handle(RunEvent{GraceOver{}})));
}

TEST_CASE(
    "a run that a callback finishes after a failure still leaves behind who does not return, whatever grace there "
    "was") {
  Controller controller{
      WorldSize{2}, {.workers = {WorldSize{1}, WorldSize{4}, WorldSize{2}}, .room = WorldSize{4}}, {}};
  start(controller, 2);
  CHECK(find<ArmGrace>(controller.handle(RunEvent{ResizeAsked{3, false}})) != nullptr);
  controller.handle(RunEvent{WorkerMessage{failure(Rank{1}, "the cause")}});
  controller.handle(RunEvent{CallbackStop{true}});
  auto const* const finish = find<FinishRun>(controller.handle(RunEvent{GraceOver{true}}));
  REQUIRE(finish != nullptr);
  CHECK(finish->left_behind == std::vector<Rank>{Rank{0}});
}

TEST_CASE("one more or fewer counts from those that train, and too little room for the fewest changes nothing") {
  Controller controller{
      WorldSize{2}, {.workers = {WorldSize{1}, WorldSize{8}, WorldSize{8}}, .room = WorldSize{2}}, {}};
  start(controller, 2);
  CHECK(find<TellWorkers>(controller.handle(RunEvent{ResizeAsked{-1, true}})) != nullptr);

  Controller crowded{WorldSize{3}, {.workers = {WorldSize{2}, WorldSize{3}, WorldSize{3}}, .room = WorldSize{3}}, {}};
  start(crowded, 3);
  CHECK(crowded.handle(RunEvent{RoomChanged{WorldSize{1}, false}}).empty());
}

TEST_CASE("a run that is not elastic keeps its workers, and says so") {
  Controller controller{WorldSize{2}, {}, {}};
  start(controller, 2);
  auto const& actions = controller.handle(RunEvent{ResizeAsked{1, true}});
  REQUIRE(find_notice<Warning>(actions) != nullptr);
  CHECK(find_notice<Warning>(actions)->text == "another number of workers is asked for, and this run has always 2");
  CHECK(controller.state() == RunState::running);
}

TEST_CASE("workers that run where they may not any more are started again, as many as they were") {
  Controller controller{
      WorldSize{1}, {.workers = {WorldSize{1}, WorldSize{2}, WorldSize{2}}, .room = WorldSize{1}}, {}};
  start(controller, 1);
  CHECK(controller.handle(RunEvent{RoomChanged{WorldSize{1}, false}}).empty());
  CHECK(find<TellWorkers>(controller.handle(RunEvent{RoomChanged{WorldSize{1}, true}})) != nullptr);
  CHECK(find<RestartWorkers>(controller.handle(RunEvent{WorkerMessage{Finished{Rank{0}, true}}})) != nullptr);
}

TEST_CASE("a worker that does not return is not started again") {
  Controller controller{WorldSize{2}, {.failure = {.max_failures = 3}}, {}};
  start(controller, 2);
  controller.handle(RunEvent{WorkerMessage{failure(Rank{0}, "the cause")}});
  auto const* const finish = find<FinishRun>(controller.handle(RunEvent{GraceOver{true}}));
  REQUIRE(finish != nullptr);
  CHECK(finish->left_behind == std::vector<Rank>{Rank{1}});
}

TEST_CASE(
    "a worker that has called other operations than the first one to return fails, and the others are told of it") {
  auto const finished = [](std::uint32_t rank, std::uint64_t operations, std::uint64_t digest) {
    Finished what{Rank{rank}, false};
    what.operations = operations;
    what.calls_digest = digest;
    return RunEvent{WorkerMessage{what}};
  };
  for (auto const& [operations, digest] : {std::pair<std::uint64_t, std::uint64_t>{4, 9}, {3, 8}}) {
    Controller controller{WorldSize{3}, {}, {}};
    start(controller, 3);
    auto const* const tell = find<TellWorkers>(controller.handle(finished(2, 3, 9)));
    REQUIRE(tell != nullptr);
    auto const* const left = std::get_if<RankReturned>(&tell->message);
    REQUIRE(left != nullptr);
    CHECK(left->rank == Rank{2});
    CHECK(left->operations == 3);
    auto const& actions = controller.handle(finished(0, operations, digest));
    CHECK(aborts(actions));
    auto const* const failure = find_notice<ErrorInfo>(actions);
    REQUIRE(failure != nullptr);
    CHECK(failure->text().find("rank 2 has called 3 collective operations and rank 0 has called " +
                               std::to_string(operations) + " collective operations, which are not the same ones") !=
          std::string::npos);
    CHECK(failure->rank == Rank{0});
    CHECK(failure->host == "node");
    CHECK(controller.handle(finished(1, 3, 9)).back().index() == RunAction{FinishRun{}}.index());
  }
}

TEST_CASE("what a worker had called that a stop cut short is told to the others, and compared with nobody's") {
  Controller controller{WorldSize{2}, {}, {}};
  start(controller, 2);
  Finished stopped{Rank{1}, true};
  stopped.operations = 3;
  auto const* const tell = find<TellWorkers>(controller.handle(RunEvent{WorkerMessage{stopped}}));
  REQUIRE(tell != nullptr);
  CHECK(std::get<RankReturned>(tell->message) == RankReturned{Rank{1}, 3});
  Finished other{Rank{0}, false};
  other.operations = 7;
  auto const* const finish = find<FinishRun>(controller.handle(RunEvent{WorkerMessage{other}}));
  REQUIRE(finish != nullptr);
  CHECK(finish->failures.empty());
}

TEST_CASE("a failure keeps its code, and one of what the controller does has no rank and ends no worker") {
  Controller controller{WorldSize{1}, {}, {}};
  start(controller, 1);
  auto full_disk = ErrorInfo{Errc::io, "writing run.json", "No space left on device"}.with_origin({}, "node");
  auto const& actions = controller.handle(RunEvent{WorkerMessage{Failed{full_disk}}});
  CHECK(aborts(actions));
  REQUIRE(find_notice<ErrorInfo>(actions) != nullptr);
  CHECK(*find_notice<ErrorInfo>(actions) == full_disk);
  CHECK(find<FinishRun>(actions) == nullptr);  // rank 0 has not ended
  auto const* const finish = find<FinishRun>(controller.handle(RunEvent{WorkerMessage{Finished{Rank{0}, true}}}));
  REQUIRE(finish != nullptr);
  CHECK(finish->failures == std::vector<ErrorInfo>{full_disk});
}

TEST_CASE("a run that is refused before it begins starts no worker and fails") {
  Controller controller{WorldSize{2}, {}, {}};
  auto const& actions = controller.handle(RunEvent{WorkerMessage{failure({}, "no server")}});
  REQUIRE(find<FinishRun>(actions) != nullptr);
  CHECK(find<FinishRun>(actions)->state == RunState::errored);
  CHECK(controller.handle(RunEvent{RunBegins{}}).empty());
}

TEST_CASE("a run that is stopped before it begins starts no worker and is aborted") {
  for (std::uint32_t requests = 1; requests <= 2; ++requests) {
    Controller controller{WorldSize{2}, {}, {}};
    for (std::uint32_t times = 1; times <= requests; ++times) controller.handle(stop_request(times));
    auto const& actions = controller.handle(RunEvent{RunBegins{}});
    CHECK(find<LaunchWorkers>(actions) == nullptr);
    CHECK(controller.state() == RunState::aborted);
  }
}

TEST_CASE("a run is finished when the last worker has, and ignores what comes after") {
  Controller controller{WorldSize{2}, {}, {}};
  start(controller, 2);
  CHECK(find<FinishRun>(controller.handle(RunEvent{WorkerMessage{Finished{Rank{0}, false}}})) == nullptr);
  auto const& actions = controller.handle(RunEvent{WorkerMessage{Finished{Rank{1}, false}}});
  REQUIRE(find<FinishRun>(actions) != nullptr);
  CHECK(find<FinishRun>(actions)->state == RunState::finished);
  CHECK(controller.handle(report(Rank{0}, 1)).empty());
  CHECK(controller.handle(stop_request()).empty());
}

TEST_CASE("a checkpoint is committed when every rank's part has arrived, with the parts in rank order") {
  Controller controller{WorldSize{2}, {}, {}};
  start(controller, 2);
  controller.handle(report(Rank{0}, 1, 0));
  controller.handle(report(Rank{1}, 1, 0));
  CHECK(find<CommitCheckpoint>(controller.handle(part(Rank{1}, 0))) == nullptr);
  auto const* const commit = find<CommitCheckpoint>(controller.handle(part(Rank{0}, 0)));
  REQUIRE(commit != nullptr);
  REQUIRE(commit->refs.size() == 2);
  CHECK(commit->refs[0].rank == Rank{0});
  CHECK(commit->rank_0_report.rank == Rank{0});
}

TEST_CASE("a run does not end before a commit that is under way has") {
  Controller controller{WorldSize{1}, {}, {}};
  start(controller, 1);
  controller.handle(report(Rank{0}, 1, 0));
  controller.handle(part(Rank{0}, 0));
  CHECK(find<FinishRun>(controller.handle(RunEvent{WorkerMessage{Finished{Rank{0}, false}}})) == nullptr);
  auto const& actions = controller.handle(RunEvent{CheckpointDurable{CheckpointOrdinal{0}, CheckpointNumber{7}}});
  CHECK(find_notice<CheckpointDurable>(actions)->number == CheckpointNumber{7});
  CHECK(find<FinishRun>(actions) != nullptr);
}

TEST_CASE("a checkpoint that could not be committed makes the run fail with the reason") {
  Controller controller{WorldSize{1}, {}, {}};
  start(controller, 1);
  controller.handle(report(Rank{0}, 1, 0));
  controller.handle(part(Rank{0}, 0));
  controller.handle(RunEvent{WorkerMessage{Finished{Rank{0}, false}}});
  auto const& actions =
      controller.handle(RunEvent{CheckpointLost{CheckpointOrdinal{0}, failure({}, "no space left").error}});
  REQUIRE(find<FinishRun>(actions) != nullptr);
  CHECK(find<FinishRun>(actions)->state == RunState::errored);
  CHECK(find<FinishRun>(actions)->failures.at(0).text() == "no space left");
}

TEST_CASE("retention deletes what is not among the best, and never the newest") {
  Controller controller{
      WorldSize{1}, {.checkpoint = {.num_to_keep = 1, .score_attribute = "accuracy"}}, {{CheckpointNumber{3}, 0.9}}};
  start(controller, 1);
  controller.handle(report(Rank{0}, 1, 0, {{"accuracy", 0.5}}));
  controller.handle(part(Rank{0}, 0));
  CHECK(find<DeleteCheckpoint>(
            controller.handle(RunEvent{CheckpointDurable{CheckpointOrdinal{0}, CheckpointNumber{4}}})) == nullptr);
  controller.handle(report(Rank{0}, 2, 1, {{"accuracy", 0.6}}));
  controller.handle(part(Rank{0}, 1));
  auto const* const deleted =
      find<DeleteCheckpoint>(controller.handle(RunEvent{CheckpointDurable{CheckpointOrdinal{1}, CheckpointNumber{5}}}));
  REQUIRE(deleted != nullptr);
  CHECK(deleted->number == CheckpointNumber{4});
}

TEST_CASE("a checkpoint that turns out damaged is none of those that retention keeps") {
  Controller controller{WorldSize{1},
                        {.checkpoint = {.num_to_keep = 2}, .failure = {.max_failures = 1}},
                        {{CheckpointNumber{2}, std::nullopt}, {CheckpointNumber{3}, std::nullopt}}};
  start(controller, 1);
  controller.handle(RunEvent{WorkerMessage{failure(Rank{0}, "the cause")}});
  controller.handle(RunEvent{RestartDue{.damaged = {CheckpointNumber{3}}}});
  auto const say = [&](auto message) -> auto const& {
    message.attempt = Attempt{2};
    return controller.handle(RunEvent{WorkerMessage{std::move(message)}});
  };
  say(Started{Rank{0}, "node", 1, "127.0.0.1"});
  Report reported;
  reported.training_iteration = 1;
  reported.checkpoint = CheckpointOrdinal{0};
  say(std::move(reported));
  REQUIRE(find<CommitCheckpoint>(say(CheckpointRef{Rank{0}, CheckpointOrdinal{0}, {}, {}})) != nullptr);
  CHECK(find<DeleteCheckpoint>(
            controller.handle(RunEvent{CheckpointDurable{CheckpointOrdinal{0}, CheckpointNumber{4}}})) == nullptr);
}

TEST_CASE("a score attribute that no report has fails the run at the first checkpoint, and lists what there is") {
  Controller controller{WorldSize{1}, {.checkpoint = {.score_attribute = "acc"}}, {}};
  start(controller, 1);
  auto const& actions = controller.handle(report(Rank{0}, 1, 0, {{"loss", 0.5}, {"accuracy", 0.5}}));
  auto const* const failed = find_notice<ErrorInfo>(actions);
  REQUIRE(failed != nullptr);
  CHECK(failed->text().find("'acc' is in the report; there are loss, accuracy") != std::string::npos);
  CHECK(aborts(actions));
}

TEST_CASE("a score that is not finite is warned of once, and its checkpoint is kept but never the best") {
  constexpr auto infinity = std::numeric_limits<double>::infinity();
  Controller controller{
      WorldSize{1}, {.checkpoint = {.num_to_keep = 1, .score_attribute = "loss"}}, {{CheckpointNumber{3}, 0.9}}};
  start(controller, 1);
  auto const* const warning = find_notice<Warning>(controller.handle(report(Rank{0}, 1, 0, {{"loss", infinity}})));
  REQUIRE(warning != nullptr);
  CHECK(warning->text.find("'loss' is inf in report 1: its checkpoint is never the best") != std::string::npos);
  CHECK(find<CommitCheckpoint>(controller.handle(part(Rank{0}, 0))) != nullptr);
  CHECK(find<DeleteCheckpoint>(
            controller.handle(RunEvent{CheckpointDurable{CheckpointOrdinal{0}, CheckpointNumber{4}}})) == nullptr);
  CHECK(find_notice<Warning>(controller.handle(report(Rank{0}, 2, 1, {{"loss", infinity}}))) == nullptr);
  controller.handle(part(Rank{0}, 1));
  auto const* const deleted =
      find<DeleteCheckpoint>(controller.handle(RunEvent{CheckpointDurable{CheckpointOrdinal{1}, CheckpointNumber{5}}}));
  REQUIRE(deleted != nullptr);
  CHECK(deleted->number == CheckpointNumber{4});
}

TEST_CASE("a score that is not finite ends the run where that is asked for, and its checkpoint is not committed") {
  Controller controller{
      WorldSize{1}, {.checkpoint = {.score_attribute = "loss", .fail_on_non_finite_score = true}}, {}};
  start(controller, 1);
  auto const& actions = controller.handle(report(Rank{0}, 1, 0, {{"loss", std::nan("")}}));
  auto const* const failed = find_notice<ErrorInfo>(actions);
  REQUIRE(failed != nullptr);
  CHECK(failed->text().find("'loss' is nan in report 1, whose checkpoint is not kept") != std::string::npos);
  CHECK(aborts(actions));
  CHECK(find<CommitCheckpoint>(controller.handle(part(Rank{0}, 0))) == nullptr);
}

TEST_CASE("the first failure is the cause, and the others are stopped") {
  Controller controller{WorldSize{3}, {}, {}};
  start(controller, 3);
  CHECK(aborts(controller.handle(RunEvent{WorkerMessage{failure(Rank{1}, "out of range")}})));
  CHECK(controller.state() == RunState::stopping);
  CHECK_FALSE(aborts(controller.handle(RunEvent{WorkerMessage{failure(Rank{2}, "second")}})));
  auto const& actions = controller.handle(RunEvent{WorkerMessage{Finished{Rank{0}, true}}});
  REQUIRE(find<FinishRun>(actions) != nullptr);
  CHECK(find<FinishRun>(actions)->state == RunState::errored);
  CHECK(find<FinishRun>(actions)->failures.at(0).rank == Rank{1});
  CHECK(find<FinishRun>(actions)->failures.size() == 2);
}

TEST_CASE("a rank that returns without a checkpoint that another has reported is named with both counts") {
  for (auto const ends_first : {false, true}) {
    CAPTURE(ends_first);
    Controller controller{WorldSize{2}, {}, {}};
    start(controller, 2);
    std::vector<RunEvent> events{report(Rank{0}, 1, 0), RunEvent{WorkerMessage{Finished{Rank{1}, false}}}};
    if (ends_first) std::ranges::reverse(events);
    controller.handle(events[0]);
    auto const* const failed = find_notice<ErrorInfo>(controller.handle(events[1]));
    REQUIRE(failed != nullptr);
    CHECK(failed->rank == Rank{1});
    CHECK(failed->text().find("rank 1 returned after 0 of them, rank 0 has reported 1") != std::string::npos);
  }
}

TEST_CASE("a stop request asks first, then aborts when the grace is over, then names who does not return") {
  Controller controller{WorldSize{2}, {}, {}};
  start(controller, 2);
  auto const& asked = controller.handle(stop_request());
  CHECK_FALSE(aborts(asked));
  REQUIRE(find<ArmGrace>(asked) != nullptr);
  CHECK(find<ArmGrace>(asked)->grace == ArmGrace::Grace::to_report);
  auto const& over = controller.handle(RunEvent{GraceOver{}});
  CHECK(aborts(over));
  REQUIRE(find<ArmGrace>(over) != nullptr);
  CHECK(find<ArmGrace>(over)->grace == ArmGrace::Grace::to_return);
  controller.handle(RunEvent{WorkerMessage{Finished{Rank{0}, true}}});
  auto const* const warning = find_notice<Warning>(controller.handle(RunEvent{GraceOver{}}));
  REQUIRE(warning != nullptr);
  CHECK(warning->text.find("still waiting for rank 1 to return") != std::string::npos);
  auto const& ended = controller.handle(RunEvent{WorkerMessage{Finished{Rank{1}, true}}});
  CHECK(find<FinishRun>(ended)->state == RunState::aborted);
}

TEST_CASE("workers that do not return end a run whose processes may end, and are failures of one that has failed") {
  Controller controller{WorldSize{2}, {}, {}};
  start(controller, 2);
  controller.handle(RunEvent{WorkerMessage{failure(Rank{0}, "the cause")}});
  auto const& actions = controller.handle(RunEvent{GraceOver{true}});
  CHECK(find_notice<ErrorInfo>(actions)->text() ==
        "did not return although it was told to, and its process is ended: it computes or waits outside of raytrain; "
        "look at stop_requested() in long work, or raise RunConfig::stop_grace");
  auto const* const finish = find<FinishRun>(actions);
  REQUIRE(finish != nullptr);
  CHECK(finish->state == RunState::errored);
  CHECK(finish->left_behind == std::vector<Rank>{Rank{1}});
  REQUIRE(finish->failures.size() == 2);
  CHECK(finish->failures[0].text() == "the cause");
  CHECK(finish->failures[1].rank == Rank{1});
  CHECK(finish->failures[1].host == "node");
}

TEST_CASE("workers that do not return are started again where their processes can be replaced, and no others") {
  Controller controller{WorldSize{2}, {.failure = {.max_failures = 1}, .replaces_processes = true}, {}};
  start(controller, 2);
  controller.handle(RunEvent{WorkerMessage{failure(Rank{0}, "the cause")}});
  auto const* const restart = find<RestartWorkers>(controller.handle(RunEvent{GraceOver{true}}));
  REQUIRE(restart != nullptr);
  CHECK(restart->left_behind == std::vector<Rank>{Rank{1}});
  REQUIRE(restart->failures.size() == 2);
  CHECK(restart->failures[1].text().find("did not return although it was told to") != std::string::npos);
  auto& late = controller.handle(RunEvent{WorkerMessage{failure(Rank{1}, "its process was killed")}});
  CHECK(late.empty());
  CHECK(find<LaunchWorkers>(controller.handle(RunEvent{RestartDue{}})) != nullptr);
}

namespace {

auto silence(Rank rank, bool waits = false) -> RunEvent {
  Silent silent{rank, std::chrono::seconds{2}};
  silent.waits = waits;
  silent.doing = "it computes";
  silent.attempt = Attempt{1};
  return RunEvent{WorkerMessage{silent}};
}

}  // namespace

TEST_CASE("a worker that shows no sign of life fails, unless it waits for another one, or not all have begun") {
  Controller controller{WorldSize{3}, {.failure = {.max_failures = 1, .hang_timeout = std::chrono::seconds{2}}}, {}};
  controller.handle(RunEvent{RunBegins{}});
  CHECK(controller.handle(silence(Rank{0})).empty());
  for (std::uint32_t rank = 0; rank < 3; ++rank)
    controller.handle(RunEvent{WorkerMessage{Started{Rank{rank}, "node", 1, "127.0.0.1"}}});
  CHECK(controller.handle(silence(Rank{0}, true)).empty());
  auto of_another_attempt = silence(Rank{1});
  std::get<Silent>(std::get<WorkerMessage>(of_another_attempt)).attempt = Attempt{2};
  CHECK(controller.handle(of_another_attempt).empty());
  auto const& actions = controller.handle(silence(Rank{1}));
  CHECK(aborts(actions));
  auto const* const error = find_notice<ErrorInfo>(actions);
  REQUIRE(error != nullptr);
  CHECK(error->rank == Rank{1});
  CHECK(error->host == "node");
  CHECK(error->code == Errc::timed_out);
  CHECK(error->happened == "it has shown no sign of life for 2000 ms");
  CHECK(error->remedy.starts_with("it computes; raise FailureConfig::hang_timeout"));
  CHECK(controller.handle(silence(Rank{1})).empty());
}

TEST_CASE("a worker that hangs is left behind at once where its process is replaced, unless it waits for others") {
  Controller controller{WorldSize{2}, {.failure = {.max_failures = 1}, .replaces_processes = true}, {}};
  start(controller, 2);
  controller.handle(silence(Rank{1}));
  auto const& actions = controller.handle(RunEvent{WorkerMessage{Finished{Rank{0}, true}}});
  auto const* const restart = find<RestartWorkers>(actions);
  REQUIRE(restart != nullptr);
  CHECK(restart->left_behind == std::vector<Rank>{Rank{1}});
  CHECK(restart->failures.size() == 1);
  Controller both{WorldSize{3}, {.failure = {.max_failures = 1}, .replaces_processes = true}, {}};
  start(both, 3);
  both.handle(silence(Rank{1}));
  CHECK(both.handle(silence(Rank{2}, true)).empty());  // it returns, since the others are aborted
  CHECK(both.handle(silence(Rank{1})).empty());
  both.handle(silence(Rank{0}));
  auto const* const second = find<RestartWorkers>(both.handle(RunEvent{WorkerMessage{Finished{Rank{2}, true}}}));
  REQUIRE(second != nullptr);
  CHECK(second->left_behind == std::vector<Rank>{Rank{1}, Rank{0}});
  CHECK(second->failures.size() == 2);
  for (auto const replaces : {true, false}) {
    Controller other{WorldSize{1}, {.failure = {.max_failures = 1}, .replaces_processes = replaces}, {}};
    start(other, 1);
    CHECK(find<RestartWorkers>(other.handle(silence(Rank{0}, replaces))) == nullptr);
  }
}

TEST_CASE("workers that all wait for each other fail, once the last one says so, unless one has gone on meanwhile") {
  Controller controller{WorldSize{3}, {.failure = {.max_failures = 1, .hang_timeout = std::chrono::seconds{2}}}, {}};
  start(controller, 3);
  controller.handle(RunEvent{WorkerMessage{Finished{Rank{2}, false}}});
  CHECK(controller.handle(silence(Rank{0}, true)).empty());
  controller.handle(report(Rank{0}, 1));
  CHECK(controller.handle(silence(Rank{1}, true)).empty());
  CHECK(controller.handle(RunEvent{WorkerMessage{Silent{Rank{1}, std::chrono::milliseconds{0}}}}).empty());
  CHECK(controller.handle(silence(Rank{0}, true)).empty());
  CHECK(controller.handle(RunEvent{WorkerMessage{Silent{Rank{0}, std::chrono::milliseconds{0}}}}).empty());
  CHECK(controller.handle(silence(Rank{1}, true)).empty());
  auto const& actions = controller.handle(silence(Rank{0}, true));
  CHECK(aborts(actions));
  CHECK(find_notice<ErrorInfo>(actions)->happened ==
        "it has shown no sign of life for 2000 ms, as all others: they wait for each other in collectives");
}

TEST_CASE("workers that wait for one that may go on do not fail, however often they say so, and whoever has returned") {
  Controller controller{WorldSize{4}, {.failure = {.max_failures = 1, .hang_timeout = std::chrono::seconds{2}}}, {}};
  start(controller, 4);
  for (int times = 0; times < 4; ++times) CHECK(controller.handle(silence(Rank{0}, true)).empty());
  controller.handle(RunEvent{WorkerMessage{Finished{Rank{0}, false}}});
  CHECK(controller.handle(silence(Rank{1}, true)).empty());
  CHECK(controller.handle(RunEvent{WorkerMessage{Silent{Rank{1}, std::chrono::milliseconds{0}}}}).empty());
  CHECK(controller.handle(silence(Rank{0}, true)).empty());
  CHECK(controller.handle(RunEvent{WorkerMessage{Silent{Rank{0}, std::chrono::milliseconds{0}}}}).empty());
  CHECK(controller.handle(silence(Rank{1}, true)).empty());
  CHECK(controller.handle(silence(Rank{2}, true)).empty());
  CHECK(aborts(controller.handle(silence(Rank{3}, true))));
}

TEST_CASE("a worker that hangs at the same step three times ends the run, wherever its thread is each time") {
  Controller controller{WorldSize{1}, {.failure = {.max_failures = -1, .hang_timeout = std::chrono::seconds{2}}}, {}};
  start(controller, 1);
  for (std::uint64_t attempt = 1; attempt <= 3; ++attempt) {
    Silent silent{Rank{0}, std::chrono::seconds{2 + attempt}};
    silent.doing = "in step+0x" + std::to_string(attempt);
    silent.attempt = Attempt{attempt};
    controller.handle(RunEvent{WorkerMessage{silent}});
    Finished finished{Rank{0}, true};
    finished.attempt = Attempt{attempt};
    auto const& actions = controller.handle(RunEvent{WorkerMessage{finished}});
    CHECK((find<FinishRun>(actions) != nullptr) == (attempt == 3));
    controller.handle(RunEvent{RestartDue{}});
    Started started{Rank{0}, "node", 1, "127.0.0.1"};
    started.attempt = Attempt{attempt + 1};
    controller.handle(RunEvent{WorkerMessage{started}});
  }
}

TEST_CASE("a straggler is told in a warning, anew in each attempt") {
  Controller controller{WorldSize{2}, {.failure = {.max_failures = 1}}, {}};
  start(controller, 2);
  auto const warnings_of = [&](Attempt attempt) {
    std::vector<std::string> texts;
    for (std::uint64_t iteration = 1; iteration <= 4; ++iteration) {
      for (std::uint32_t rank = 0; rank < 2; ++rank) {
        auto slow = std::get<Report>(std::get<WorkerMessage>(report(Rank{rank}, iteration)));
        slow.attempt = attempt;
        slow.time_this_iter_s = 3;
        slow.time_waiting_s = rank == 0 ? 2 : 0;
        auto const& actions = controller.handle(RunEvent{WorkerMessage{slow}});
        if (auto const* const warning = find_notice<Warning>(actions)) texts.push_back(warning->text);
      }
    }
    return texts;
  };
  for (auto const attempt : {Attempt{1}, Attempt{2}}) {
    auto const warnings = warnings_of(attempt);
    REQUIRE(warnings.size() == 1);
    CHECK(warnings[0].starts_with("rank 1 on host node takes 3.0 times as long as the others"));
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      auto failed = failure(Rank{rank}, "out of range");
      failed.attempt = attempt;
      controller.handle(RunEvent{WorkerMessage{failed}});
    }
    controller.handle(RunEvent{RestartDue{}});
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      Started started{Rank{rank}, "node", 1, "127.0.0.1"};
      started.attempt = Attempt{2};
      controller.handle(RunEvent{WorkerMessage{started}});
    }
  }
}

TEST_CASE("workers that have not begun when they are due fail, unless they are of another attempt") {
  Controller controller{WorldSize{3}, {}, {}};
  controller.handle(RunEvent{RunBegins{}});
  controller.handle(RunEvent{WorkerMessage{Started{Rank{1}, "alpha", 1, "10.0.0.1"}}});
  CHECK(controller.handle(RunEvent{StartIsDue{Attempt{2}, std::chrono::seconds{60}}}).empty());
  auto const& actions = controller.handle(RunEvent{StartIsDue{Attempt{1}, std::chrono::seconds{60}}});
  CHECK(aborts(actions));
  std::vector<Rank> late;
  for (auto const& action : actions) {
    auto const* const record = std::get_if<RecordMessage>(&action);
    auto const* const error = record == nullptr ? nullptr : std::get_if<ErrorInfo>(&record->what);
    if (error == nullptr) continue;
    CHECK(error->happened == "it has not begun to train within 60000 ms");
    late.push_back(error->rank.value());
  }
  CHECK(late == std::vector<Rank>{Rank{0}, Rank{2}});
  CHECK(controller.handle(RunEvent{StartIsDue{Attempt{1}, std::chrono::seconds{60}}}).empty());
}

TEST_CASE("a run that is stopped twice is aborted although a worker does not return") {
  Controller controller{WorldSize{2}, {}, {}};
  start(controller, 2);
  controller.handle(stop_request());
  auto const* const arm = find<ArmGrace>(controller.handle(stop_request(2)));
  REQUIRE(arm != nullptr);
  CHECK(arm->grace == ArmGrace::Grace::at_once);
  controller.handle(RunEvent{WorkerMessage{Finished{Rank{0}, true}}});
  auto const& actions = controller.handle(RunEvent{GraceOver{true}});
  auto const* const finish = find<FinishRun>(actions);
  REQUIRE(finish != nullptr);
  CHECK(finish->state == RunState::aborted);
  CHECK(finish->left_behind == std::vector<Rank>{Rank{1}});
  CHECK(find_notice<Warning>(actions)->text.find("rank 1 did not return") != std::string::npos);
}

TEST_CASE("a second stop request aborts at once") {
  Controller controller{WorldSize{1}, {}, {}};
  start(controller, 1);
  CHECK_FALSE(aborts(controller.handle(stop_request())));
  CHECK(aborts(controller.handle(stop_request(2))));
}

TEST_CASE("a signal that every process gets is one request to stop, and a process that gets two aborts") {
  Controller controller{WorldSize{2}, {}, {}};
  start(controller, 2);
  CHECK_FALSE(aborts(controller.handle(RunEvent{WorkerMessage{StopRequest{Rank{1}, 1}}})));
  CHECK(controller.stop_requested());
  CHECK(controller.handle(stop_request(1)).empty());
  CHECK(aborts(controller.handle(RunEvent{WorkerMessage{StopRequest{Rank{1}, 2}}})));
}

TEST_CASE(
    "a callback may ask for a stop as often as it likes: workers are asked once, and torn out by the grace only") {
  Controller controller{WorldSize{2}, {}, {}};
  start(controller, 2);
  auto const& first = controller.handle(RunEvent{CallbackStop{false}});
  CHECK_FALSE(aborts(first));
  CHECK(find<ArmGrace>(first) != nullptr);
  CHECK(find_notice<Warning>(first)->text == "a callback asked for a stop: workers end at their next report");
  CHECK(controller.handle(RunEvent{CallbackStop{false}}).empty());
  CHECK(aborts(controller.handle(RunEvent{GraceOver{}})));
}

TEST_CASE("a signal after a callback's request is a first one, and says how to end at once") {
  Controller controller{WorldSize{1}, {}, {}};
  start(controller, 1);
  controller.handle(RunEvent{CallbackStop{false}});
  auto const& signalled = controller.handle(stop_request());
  CHECK_FALSE(aborts(signalled));
  REQUIRE(find_notice<Warning>(signalled) != nullptr);
  CHECK(find_notice<Warning>(signalled)->text.find("ask again to end at once") != std::string::npos);
  REQUIRE(find<TellWorkers>(signalled) != nullptr);
  CHECK(find<TellWorkers>(signalled)->message == ControllerMessage{Stop{false, Attempt{1}, false, true}});
  CHECK(controller.handle(RunEvent{CallbackStop{false}}).empty());
  CHECK(aborts(controller.handle(stop_request(2))));
}

TEST_CASE("a run that a callback finishes early takes its time, and ends as finished although workers were stopped") {
  Controller controller{WorldSize{2}, {}, {}};
  start(controller, 2);
  auto const& asked = controller.handle(RunEvent{CallbackStop{true}});
  CHECK(find<TellWorkers>(asked)->message == ControllerMessage{Stop{false}});
  CHECK(find<ArmGrace>(asked) == nullptr);
  CHECK(controller.handle(RunEvent{CallbackStop{true}}).empty());
  controller.handle(RunEvent{WorkerMessage{Finished{Rank{0}, true}}});
  CHECK(find<FinishRun>(controller.handle(RunEvent{WorkerMessage{Finished{Rank{1}, true}}}))->state ==
        RunState::finished);
}

TEST_CASE("a run that a callback finishes before it begins starts no worker and is finished") {
  Controller controller{WorldSize{2}, {}, {}};
  controller.handle(RunEvent{CallbackStop{true}});
  CHECK(find<LaunchWorkers>(controller.handle(RunEvent{RunBegins{}})) == nullptr);
  CHECK(controller.state() == RunState::finished);
}

TEST_CASE("a run that a callback finishes early has not finished if a worker is left behind") {
  Controller controller{WorldSize{1}, {}, {}};
  start(controller, 1);
  controller.handle(RunEvent{CallbackStop{true}});
  controller.handle(stop_request(2));
  CHECK(find<FinishRun>(controller.handle(RunEvent{GraceOver{true}}))->state == RunState::aborted);
}

TEST_CASE("a run that a callback finishes early has failed if a worker then fails") {
  Controller controller{WorldSize{1}, {}, {}};
  start(controller, 1);
  controller.handle(RunEvent{CallbackStop{true}});
  auto const& ended = controller.handle(RunEvent{WorkerMessage{failure(Rank{0}, "out of range")}});
  CHECK(find<FinishRun>(ended)->state == RunState::errored);
}

TEST_CASE("a run whose workers all returned before they saw the stop is finished, not aborted") {
  Controller controller{WorldSize{1}, {}, {}};
  start(controller, 1);
  controller.handle(stop_request());
  CHECK(find<FinishRun>(controller.handle(RunEvent{WorkerMessage{Finished{Rank{0}, false}}}))->state ==
        RunState::finished);
}

namespace {

// Workers that send a random but possible stream of messages, merged at random; the walk carries out the actions.
class RandomWalk {
 public:
  explicit RandomWalk(std::uint64_t seed)
      : random_{seed},
        world_{pick(1, 5)},
        replaces_{pick(0, 1) == 1},
        max_preemptions_{static_cast<int>(pick(0, 3)) - 1},
        controller_{WorldSize{world_},
                    {.failure = {.max_failures = static_cast<int>(pick(0, 4)) - 1, .max_preemptions = max_preemptions_},
                     .replaces_processes = replaces_,
                     .workers = {WorldSize{1}, WorldSize{most}, WorldSize{world_}},
                     .room = WorldSize{most}},
                    {}} {}

  void run() {
    deliver(RunEvent{RunBegins{}});
    while (!finished_) {
      auto const choice = pick(0, 19);
      if (choice == 0 && pick(0, 9) == 0) {
        deliver(stop_request());
      } else if (choice == 2 && pick(0, 20) == 0) {
        finished_early_ = pick(0, 1) == 0 || finished_early_;
        deliver(RunEvent{CallbackStop{finished_early_}});
      } else if (choice == 2 && pick(0, 5) == 0) {
        deliver(RunEvent{ResizeAsked{std::int64_t{pick(0, most + 1)} - 1, pick(0, 1) == 0}});
      } else if (choice == 2 && pick(0, 20) == 0) {
        deliver(RunEvent{RoomChanged{WorldSize{pick(1, most)}, pick(0, 3) == 0}});
      } else if (choice == 1 && pick(0, 40) == 0) {
        deliver(RunEvent{WorkerMessage{failure({}, "a critical callback")}});
      } else if (choice == 3 && pick(0, 40) == 0) {
        Silent silent{Rank{pick(0, world_ - 1)}, std::chrono::seconds{1}};
        silent.attempt.value = attempt_.value - (attempt_ > Attempt{1} ? pick(0, 1) : 0);
        silent.waits = pick(0, 1) == 0;
        deliver(RunEvent{WorkerMessage{std::move(silent)}});
      } else if (choice == 4 && pick(0, 6) == 0) {
        preempt(Rank{pick(0, world_ - 1)});
      } else if (choice < 4 && !commits_.empty()) {
        auto const checkpoint = commits_.front();
        commits_.pop_front();
        deliver(pick(0, 30) == 0 ? RunEvent{CheckpointLost{checkpoint, failure({}, "disk").error}}
                                 : RunEvent{CheckpointDurable{checkpoint, CheckpointNumber{++number_}}});
      } else if (grace_ && pick(0, 9) == 0) {
        grace_ = false;
        if (restarting_) CHECK(controller_.handle(RunEvent{GraceOver{true}}).empty());
        if (!restarting_) deliver(RunEvent{GraceOver{replaces_}});
      } else if (restarting_) {
        if (pick(0, 9) == 0) deliver(RunEvent{RestartDue{0, WorldSize{pick(1, most)}}});
      } else if (attempt_ > Attempt{1} && pick(0, 30) == 0) {
        deliver_late();
      } else {
        auto& messages = streams_[pick(0, world_ - 1)];
        if (messages.empty()) continue;
        auto message = std::move(messages.front());
        messages.pop_front();
        if (auto const* const what = std::get_if<Report>(&message); what != nullptr && !what->hands_over)
          sent_[what->rank].push_back(what->training_iteration);
        deliver(RunEvent{std::move(message)});
      }
    }
    CHECK(is_terminal(controller_.state()));
    CHECK(launches_ == attempt_.value - (restarting_ ? 1 : 0));
    CHECK(commits_.empty());
    CHECK(sent_ == notified_);
    CHECK(controller_.handle(stop_request()).empty());
    CHECK(controller_.handle(RunEvent{CheckpointDurable{CheckpointOrdinal{99}, CheckpointNumber{99}}}).empty());
  }

 private:
  static constexpr std::uint32_t most = 5;  // workers

  auto pick(std::uint32_t low, std::uint32_t high) -> std::uint32_t {
    return std::uniform_int_distribution<std::uint32_t>{low, high}(random_);
  }

  // What a worker of the attempt before still says when this one runs.
  void deliver_late() {
    std::vector<WorkerMessage> late{Started{Rank{0}, "node", 1, "127.0.0.1"}, Finished{Rank{0}, true},
                                    failure(Rank{0}, "late"), std::get<WorkerMessage>(report(Rank{0}, 1000, 0)),
                                    std::get<WorkerMessage>(part(Rank{0}, 0))};
    auto& message = late[pick(0, 4)];
    std::visit([this](auto& what) { what.attempt = Attempt{attempt_.value - 1}; }, message);
    CHECK(controller_.handle(RunEvent{std::move(message)}).empty());
  }

  // Its process is taken away, at once or in time. While nobody works the launcher replaces it, and a user is told.
  void preempt(Rank rank) {
    auto const is_late = restarting_ || (attempt_ > Attempt{1} && pick(0, 4) == 0);
    Preempted notice{rank, Attempt{attempt_.value - (is_late ? 1 : 0)}};
    if (is_late) {
      for (auto const& action : controller_.handle(RunEvent{WorkerMessage{notice}})) {
        CHECK(std::holds_alternative<RecordMessage>(action));
      }
      return;
    }
    preempted_.insert(rank);
    deliver(RunEvent{WorkerMessage{notice}});
    auto& messages = streams_[rank.value];
    if (finished_ || messages.empty() || pick(0, 1) == 0) return;
    Failed lost{ErrorInfo{Errc::worker_failed, {}, "lost"}.with_origin(rank, "node")};
    lost.process_is_spent = true;
    lost.attempt = attempt_;
    messages.resize(pick(0, static_cast<std::uint32_t>(messages.size() - 1)));
    messages.emplace_back(std::move(lost));
  }

  // None but those of which the controller was told, and no more attempts than may be.
  void check_preemptions(std::vector<ErrorInfo> const& preemptions) const {
    for (auto const& preemption : preemptions) CHECK(preempted_.contains(preemption.rank.value()));
  }

  void launch(LaunchWorkers const& launch) {
    restarting_ = false;
    preempted_.clear();
    grace_ = false;
    ++launches_;
    CHECK(launch.attempt == attempt_);
    CHECK((launch.world_size.value >= 1 && launch.world_size.value <= most));
    world_ = launch.world_size.value;
    hands_over_ = pick(0, 2) == 0;
    CHECK(launch.first_checkpoint >= first_checkpoint_);
    first_checkpoint_ = launch.first_checkpoint;
    auto const checkpoints = pick(0, 3);
    for (std::uint32_t rank = 0; rank < world_; ++rank) {
      streams_[rank] = stream(Rank{rank}, first_checkpoint_.value + checkpoints);
      for (auto& message : streams_[rank]) {
        std::visit([this](auto& what) { what.attempt = attempt_; }, message);
      }
    }
  }

  void restart(RestartWorkers const& restart) {
    for (auto const rank : restart.left_behind) streams_[rank.value].clear();
    CHECK((replaces_ || restart.left_behind.empty()));
    CHECK(std::ranges::all_of(streams_, [](auto const& stream) { return stream.second.empty(); }));
    CHECK(commits_.empty());
    check_failures(restart.failures);
    check_preemptions(restart.preemptions);
    if (restart.failures.empty() && !restart.preemptions.empty()) ++preemptions_;
    CHECK((max_preemptions_ == -1 || preemptions_ <= max_preemptions_));
    failures_.clear();
    restarting_ = true;
    ++attempt_.value;
  }

  void check_failures(std::vector<ErrorInfo> const& failures) const {
    std::vector<std::string> texts;
    for (auto const& failed : failures) {
      // The controller's own are of who does not return, and of one pre-emption too many.
      auto const is_own = failed.code == Errc::timed_out || failed.text().find("max_preemptions") != std::string::npos;
      if (!is_own) texts.push_back(failed.text());
    }
    CHECK(fmt::format("{}", fmt::join(texts, "; ")) == fmt::format("{}", fmt::join(failures_, "; ")));
  }

  auto stream(Rank rank, std::uint64_t checkpoints) -> std::deque<WorkerMessage> {
    std::deque<WorkerMessage> messages;
    messages.emplace_back(Started{rank, "node", 1, "127.0.0.1"});
    std::uint64_t iteration = 0;
    for (auto checkpoint = first_checkpoint_.value; checkpoint < checkpoints; ++checkpoint) {
      for (auto plain = pick(0, 2); plain > 0; --plain) {
        messages.push_back(std::get<WorkerMessage>(report(rank, ++iteration)));
      }
      auto with_checkpoint = std::get<Report>(std::get<WorkerMessage>(report(rank, iteration, checkpoint)));
      with_checkpoint.hands_over = hands_over_ && checkpoint + 1 == checkpoints;
      if (!with_checkpoint.hands_over) with_checkpoint.training_iteration = ++iteration;
      messages.emplace_back(std::move(with_checkpoint));
      messages.push_back(std::get<WorkerMessage>(part(rank, checkpoint)));
      if (pick(0, 20) == 0) {
        messages.emplace_back(failure(rank, "chance"));
        return messages;
      }
    }
    messages.emplace_back(Finished{rank, hands_over_ || pick(0, 10) == 0});
    return messages;
  }

  void deliver(RunEvent event) {
    note_failure(event);
    for (auto& action : controller_.handle(std::move(event))) {
      CHECK_FALSE(finished_);
      if (auto const* const what = std::get_if<LaunchWorkers>(&action)) launch(*what);
      if (auto const* const what = std::get_if<RestartWorkers>(&action)) restart(*what);
      if (std::holds_alternative<ArmGrace>(action)) grace_ = true;
      if (auto const* const commit = std::get_if<CommitCheckpoint>(&action)) {
        CHECK(commit->refs.size() == world_);
        commits_.push_back(commit->checkpoint);
      }
      if (auto const* const record = std::get_if<RecordMessage>(&action)) {
        if (auto const* const what = std::get_if<Report>(&record->what)) {
          notified_[what->rank].push_back(what->training_iteration);
        }
        auto const* const error = std::get_if<ErrorInfo>(&record->what);
        if (error != nullptr && error->happened == "lost") failures_.push_back(error->text());
      }
      if (auto const* const finish = std::get_if<FinishRun>(&action)) {
        finished_ = true;
        CHECK(is_terminal(finish->state));
        CHECK((finish->state == RunState::errored) == !finish->failures.empty());
        check_failures(finish->failures);
        check_preemptions(finish->preemptions);
        CHECK((finish->preemptions.empty() || finish->state == RunState::errored));
        CHECK_FALSE((finished_early_ && finish->state == RunState::aborted && finish->left_behind.empty()));
      }
    }
  }

  void note_failure(RunEvent const& event) {
    if (auto const* const lost = std::get_if<CheckpointLost>(&event)) failures_.push_back(lost->error.text());
    auto const* const message = std::get_if<WorkerMessage>(&event);
    auto const* const failed = message != nullptr ? std::get_if<Failed>(message) : nullptr;
    // The loss of a process that was to be taken away is a failure only where the controller says so.
    if (failed != nullptr && failed->error.happened != "lost") failures_.push_back(failed->error.text());
    if (failed != nullptr && failed->error.happened == "lost") CHECK(preempted_.contains(*failed->error.rank));
  }

  std::mt19937_64 random_;
  std::uint32_t world_;
  bool replaces_;
  int max_preemptions_;
  Controller controller_;
  std::map<std::uint32_t, std::deque<WorkerMessage>> streams_;
  std::deque<CheckpointOrdinal> commits_;
  std::map<Rank, std::vector<std::uint64_t>> sent_;
  std::map<Rank, std::vector<std::uint64_t>> notified_;
  std::vector<std::string> failures_;  // that were delivered
  std::set<Rank> preempted_;           // in this attempt
  int preemptions_ = 0;                // attempts that have ended by them, and are no failures
  std::uint64_t number_ = 0;
  Attempt attempt_;
  CheckpointOrdinal first_checkpoint_;
  std::uint64_t launches_ = 0;
  bool restarting_ = false;
  bool hands_over_ = false;  // the last checkpoint of this attempt's workers
  bool grace_ = false;
  bool finished_early_ = false;
  bool finished_ = false;
};

}  // namespace

TEST_CASE("in any order of events each report is handled once and in order, and one end has every failure before it") {
  auto const first_seed = random_seed();
  for (std::uint64_t walk = 0; walk < 2000; ++walk) {
    CAPTURE(first_seed + walk);
    RandomWalk{first_seed + walk}.run();
  }
}
