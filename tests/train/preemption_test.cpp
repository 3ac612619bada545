// SPDX-License-Identifier: Apache-2.0
// Processes of workers that are taken away.
#include <raytrain/train/controller.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/train/result.hpp>

#include "controller_events.hpp"

using namespace raytrain;
using namespace raytrain::testing;

namespace {

auto policy(int max_preemptions = -1, int max_failures = 0) -> RunPolicy {
  return {.failure = {.max_failures = max_failures, .max_preemptions = max_preemptions}, .replaces_processes = true};
}

/// Its two workers have been told to end, since three are asked for.
auto resizing_controller() -> Controller {
  Controller controller{
      WorldSize{2},
      {.replaces_processes = true, .workers = {WorldSize{1}, WorldSize{4}, WorldSize{2}}, .room = WorldSize{4}},
      {}};
  start(controller, 2);
  controller.handle(RunEvent{ResizeAsked{3, false}});
  return controller;
}

auto preempted(std::uint32_t rank, Attempt attempt = {}) -> RunEvent {
  return RunEvent{WorkerMessage{Preempted{Rank{rank}, attempt}}};
}

auto finished(std::uint32_t rank, bool stopped) -> RunEvent {
  return RunEvent{WorkerMessage{Finished{Rank{rank}, stopped}}};
}

auto loss(std::uint32_t rank) -> RunEvent {
  Failed lost{ErrorInfo{Errc::worker_failed, {}, "its process was ended by signal 9"}.with_origin(Rank{rank}, "node")};
  lost.process_is_spent = true;
  return RunEvent{WorkerMessage{std::move(lost)}};
}

auto is_of_rank_1(RestartWorkers const* again) -> bool {
  return again != nullptr && again->failures.empty() &&
         TrainingFailed::describe(again->preemptions) == "rank 1 on node: its process was sent a SIGTERM";
}

}  // namespace

TEST_CASE("workers end in order when the process of one is taken away, and go on without a failure") {
  Controller controller{WorldSize{2}, policy(), {}};
  start(controller, 2);
  auto const& told = controller.handle(preempted(1));
  CHECK(controller.state() == RunState::resizing);
  REQUIRE(find<TellWorkers>(told) != nullptr);
  CHECK(find<TellWorkers>(told)->message == ControllerMessage{Stop{false, Attempt{1}, true}});
  REQUIRE(find<ArmGrace>(told) != nullptr);
  CHECK(find<ArmGrace>(told)->grace == ArmGrace::Grace::to_report);
  REQUIRE(find_notice<Warning>(told) != nullptr);
  CHECK(find_notice<Warning>(told)->text ==
        "rank 1: its process was sent a SIGTERM, so it may be taken away soon: workers end at their next report");
  CHECK(controller.handle(preempted(1)).empty());  // twice to the same process
  controller.handle(finished(1, true));
  CHECK(controller.handle(preempted(1)).empty());
  auto const* const again = find<RestartWorkers>(controller.handle(finished(0, true)));
  CHECK(is_of_rank_1(again));
  CHECK(find<LaunchWorkers>(controller.handle(RunEvent{RestartDue{}})) != nullptr);
  CHECK(controller.state() == RunState::scheduling);
}

TEST_CASE("a process that is taken away when its worker has returned for a resize counts as one that was before") {
  auto controller = resizing_controller();
  controller.handle(finished(1, true));
  controller.handle(preempted(1));
  CHECK(is_of_rank_1(find<RestartWorkers>(controller.handle(finished(0, true)))));
}

TEST_CASE("a notice that comes after all workers have returned for another attempt is told of, and stops none of it") {
  auto controller = resizing_controller();
  controller.handle(finished(1, true));
  controller.handle(finished(0, true));
  REQUIRE(controller.state() == RunState::restarting);
  for (auto const state : {RunState::restarting, RunState::scheduling}) {
    CAPTURE(static_cast<int>(state));
    if (state == RunState::scheduling) controller.handle(RunEvent{RestartDue{}});
    auto const& told = controller.handle(preempted(1));
    CHECK(told.size() == 1);
    REQUIRE(find_notice<Warning>(told) != nullptr);
    CHECK(find_notice<Warning>(told)->text ==
          "rank 1: its process was sent a SIGTERM when its worker had returned; "
          "another process takes its place");
    CHECK(controller.state() == state);
  }
}

TEST_CASE("a process that is taken away when its worker has returned from the training changes nothing") {
  Controller controller{WorldSize{2}, policy(), {}};
  start(controller, 2);
  controller.handle(finished(1, false));
  CHECK(controller.handle(preempted(1)).empty());
  CHECK(controller.state() == RunState::running);
}

TEST_CASE("a process that is killed before it has ended in order is the same pre-emption, and the others are aborted") {
  Controller controller{WorldSize{2}, policy(), {}};
  start(controller, 2);
  controller.handle(preempted(1));
  auto const& lost = controller.handle(loss(1));
  CHECK(aborts(lost));
  CHECK(find_notice<ErrorInfo>(lost) == nullptr);
  CHECK(is_of_rank_1(find<RestartWorkers>(controller.handle(finished(0, true)))));
}

TEST_CASE("an exception, and another process that is lost, are failures though a process is taken away") {
  for (auto const& failed : {RunEvent{WorkerMessage{failure(Rank{1}, "out of range")}}, loss(0)}) {
    Controller controller{WorldSize{2}, policy(), {}};
    start(controller, 2);
    controller.handle(preempted(1));
    controller.handle(failed);
    auto const* end = find<FinishRun>(controller.handle(finished(0, true)));
    if (end == nullptr) end = find<FinishRun>(controller.handle(finished(1, true)));
    REQUIRE(end != nullptr);
    CHECK(end->state == RunState::errored);
    CHECK(end->failures.size() == 1);
    CHECK(end->preemptions.empty());
  }
}

TEST_CASE("a process that is taken away while workers begin ends the attempt when all have begun, or it is lost") {
  Controller controller{WorldSize{2}, policy(), {}};
  controller.handle(RunEvent{RunBegins{}});
  CHECK(find<TellWorkers>(controller.handle(preempted(1))) == nullptr);
  for (auto const rank : {0U, 1U}) {
    CHECK(controller.state() == RunState::scheduling);
    controller.handle(RunEvent{WorkerMessage{Started{Rank{rank}, "node", 1, "127.0.0.1"}}});
  }
  CHECK(controller.state() == RunState::resizing);

  Controller other{WorldSize{2}, policy(), {}};
  other.handle(RunEvent{RunBegins{}});
  other.handle(preempted(1));
  CHECK(aborts(other.handle(loss(1))));
  auto const* const again = find<RestartWorkers>(other.handle(finished(0, true)));
  REQUIRE(again != nullptr);
  CHECK(again->failures.empty());
}

TEST_CASE("a process is taken away while the number of workers changes, and both are one change") {
  auto controller = resizing_controller();
  CHECK(find<TellWorkers>(controller.handle(preempted(1))) == nullptr);
  controller.handle(finished(0, true));
  CHECK(is_of_rank_1(find<RestartWorkers>(controller.handle(finished(1, true)))));
  auto const* const launch = find<LaunchWorkers>(controller.handle(RunEvent{RestartDue{0, WorldSize{4}}}));
  REQUIRE(launch != nullptr);
  CHECK(launch->world_size == WorldSize{3});
}

TEST_CASE("several processes that are taken away are one pre-emption, of which one warning tells, and each is named") {
  Controller controller{WorldSize{2}, policy(1), {}};
  start(controller, 2);
  CHECK(find_notice<Warning>(controller.handle(preempted(1))) != nullptr);
  CHECK(controller.handle(preempted(0)).empty());
  controller.handle(finished(0, true));
  auto const* const again = find<RestartWorkers>(controller.handle(finished(1, true)));
  REQUIRE(again != nullptr);
  CHECK(TrainingFailed::describe(again->preemptions) ==
        "rank 1 on node, rank 0 on node: its process was sent a SIGTERM");
}

TEST_CASE("a run of which all workers return is finished though a process is taken away") {
  Controller controller{WorldSize{2}, policy(0), {}};
  start(controller, 2);
  controller.handle(finished(0, false));
  controller.handle(preempted(1));
  auto const* const end = find<FinishRun>(controller.handle(finished(1, false)));
  REQUIRE(end != nullptr);
  CHECK(end->state == RunState::finished);
  CHECK(end->preemptions.empty());
}

TEST_CASE("the process of a worker that has returned may be taken away while the others go on") {
  Controller controller{WorldSize{2}, policy(0), {}};
  start(controller, 2);
  controller.handle(finished(1, false));
  CHECK(controller.handle(preempted(1)).empty());
  CHECK(find<FinishRun>(controller.handle(finished(0, false)))->state == RunState::finished);
}

TEST_CASE("a stop counts in the place of a process that is taken away, whichever comes first") {
  for (auto const stop_is_first : {false, true}) {
    for (auto const most : {-1, 0}) {
      CAPTURE(stop_is_first);
      CAPTURE(most);
      Controller controller{WorldSize{2}, policy(most), {}};
      start(controller, 2);
      if (stop_is_first) controller.handle(stop_request());
      for (auto const rank : {0U, 1U}) controller.handle(preempted(rank));
      if (!stop_is_first) controller.handle(stop_request());
      controller.handle(loss(1));
      auto const* const end = find<FinishRun>(controller.handle(finished(0, true)));
      REQUIRE(end != nullptr);
      CHECK(end->state == RunState::aborted);
      CHECK(end->failures.empty());
      CHECK(end->preemptions.empty());
    }
  }
}

TEST_CASE("a stop ends the run as aborted although all workers have ended since a process is taken away") {
  for (auto const most : {-1, 0}) {
    CAPTURE(most);
    Controller controller{WorldSize{1}, policy(most), {}};
    start(controller, 1);
    controller.handle(preempted(0));
    auto const& ended = controller.handle(finished(0, true));
    CHECK(find<FinishRun>(ended) == nullptr);
    CHECK((find<RestartWorkers>(ended) == nullptr) == (most == 0));
    auto const* const end = find<FinishRun>(controller.handle(stop_request()));
    REQUIRE(end != nullptr);
    CHECK(end->state == RunState::aborted);
    CHECK(end->failures.empty());
  }
}

TEST_CASE("a stop that comes while the last commit holds up a pre-emption too many is a stop, and nothing else") {
  Controller controller{WorldSize{1}, policy(0), {}};
  start(controller, 1);
  controller.handle(preempted(0));
  controller.handle(RunEvent{GraceOver{true}});
  CHECK(find<ArmGrace>(controller.handle(RunEvent{GraceOver{true}})) != nullptr);  // the worker is left behind
  controller.handle(report(Rank{0}, 1, 0));
  CHECK(find<CommitCheckpoint>(controller.handle(part(Rank{0}, 0))) != nullptr);
  CHECK(controller.handle(RunEvent{GraceOver{true}}).empty());
  controller.handle(stop_request());
  auto const* const end =
      find<FinishRun>(controller.handle(RunEvent{CheckpointDurable{CheckpointOrdinal{0}, CheckpointNumber{1}}}));
  REQUIRE(end != nullptr);
  CHECK(end->state == RunState::aborted);
  CHECK(end->preemptions.empty());
}

TEST_CASE("one pre-emption more than max_preemptions is a failure when no stop has come, and the text says so") {
  Controller controller{WorldSize{2}, policy(1, 1), {}};
  for (std::uint64_t attempt = 1; attempt <= 3; ++attempt) {
    CAPTURE(attempt);
    auto const say = [&](auto message) -> std::vector<RunAction> const& {
      message.attempt = Attempt{attempt};
      return controller.handle(RunEvent{WorkerMessage{std::move(message)}});
    };
    controller.handle(attempt == 1 ? RunEvent{RunBegins{}} : RunEvent{RestartDue{}});
    for (auto const rank : {0U, 1U}) say(Started{Rank{rank}, "node", 1, "127.0.0.1"});
    say(Preempted{Rank{1}});
    say(Finished{Rank{0}, true});
    auto const& ended = say(Finished{Rank{1}, true});
    if (attempt == 1) {
      CHECK(is_of_rank_1(find<RestartWorkers>(ended)));
      continue;
    }
    REQUIRE(find<ArmGrace>(ended) != nullptr);
    CHECK(find<ArmGrace>(ended)->grace == ArmGrace::Grace::of_stop);
    CHECK(find<RestartWorkers>(ended) == nullptr);
    CHECK(controller.handle(RunEvent{RoomChanged{WorldSize{2}, true}}).empty());
    auto const& over = controller.handle(RunEvent{GraceOver{true}});
    REQUIRE(find_notice<ErrorInfo>(over) != nullptr);
    auto const* const again = find<RestartWorkers>(over);
    auto const* const end = find<FinishRun>(over);
    REQUIRE((attempt == 2 ? again != nullptr : end != nullptr));
    CHECK(TrainingFailed::describe(attempt == 2 ? again->failures : end->failures) ==
          "rank 1 on node: its process was sent a SIGTERM, and FailureConfig::max_preemptions is 1; see who takes "
          "processes away, or raise max_preemptions");
    CHECK((attempt == 2 ? again->preemptions : end->preemptions).size() == 1);
    if (attempt == 3) CHECK(end->state == RunState::errored);
  }
}

TEST_CASE("a worker that does not return before its process is taken away is left behind, by no failure") {
  Controller controller{WorldSize{2}, policy(), {}};
  start(controller, 2);
  controller.handle(preempted(1));
  CHECK(aborts(controller.handle(RunEvent{GraceOver{true}})));
  controller.handle(finished(0, true));
  auto const* const again = find<RestartWorkers>(controller.handle(RunEvent{GraceOver{true}}));
  CHECK(is_of_rank_1(again));
  REQUIRE(again != nullptr);
  CHECK(again->left_behind == std::vector{Rank{1}});
}

namespace {

// A run of one worker, and after which time each of its attempts is followed by another one.
class Waits {
 public:
  [[nodiscard]] auto after_preemption(bool with_checkpoint = false) -> std::chrono::milliseconds {
    begin();
    if (with_checkpoint) {
      Report with_state;
      with_state.training_iteration = 1;
      with_state.checkpoint = CheckpointOrdinal{0};
      say(std::move(with_state));
      say(CheckpointRef{});
      controller_.handle(RunEvent{CheckpointDurable{CheckpointOrdinal{0}, CheckpointNumber{1}}});
    }
    say(Preempted{Rank{0}});
    return wait_of(say(Finished{Rank{0}, true}));
  }

  [[nodiscard]] auto after_failure() -> std::chrono::milliseconds {
    begin();
    return wait_of(say(failure(Rank{0}, "in attempt " + std::to_string(attempt_))));
  }

 private:
  static auto with_backoff() -> RunPolicy {
    auto with = policy(-1, -1);
    with.failure.backoff = std::chrono::seconds{1};
    return with;
  }

  void begin() {
    controller_.handle(++attempt_ == 1 ? RunEvent{RunBegins{}} : RunEvent{RestartDue{}});
    say(Started{Rank{0}, "node", 1, "127.0.0.1"});
  }

  template <class Message>
  auto say(Message message) -> std::vector<RunAction> const& {
    message.attempt = Attempt{attempt_};
    return controller_.handle(RunEvent{WorkerMessage{std::move(message)}});
  }

  static auto wait_of(std::vector<RunAction> const& actions) -> std::chrono::milliseconds {
    auto const* const again = find<RestartWorkers>(actions);
    REQUIRE(again != nullptr);
    return again->wait;
  }

  Controller controller_{WorldSize{1}, with_backoff(), {}};
  std::uint64_t attempt_ = 0;
};

}  // namespace

TEST_CASE(
    "workers whose processes are taken away again and again come back later and later, until a checkpoint comes") {
  Waits waits;
  auto const first = waits.after_preemption();
  CHECK(first <= std::chrono::seconds{1});
  auto const second = waits.after_preemption();
  CHECK(second >= first);
  auto const third = waits.after_preemption();
  CHECK(third >= second);
  CHECK(third >= std::chrono::seconds{2});
  CHECK(waits.after_preemption(true) <= std::chrono::seconds{1});
}

TEST_CASE("processes that are taken away do not lengthen the wait after a failure, nor failures theirs") {
  Waits waits;
  for (auto i = 0; i < 3; ++i) (void)waits.after_preemption();
  CHECK(waits.after_failure() <= std::chrono::seconds{1});
  CHECK(waits.after_failure() <= std::chrono::seconds{2});
  auto const fourth = waits.after_preemption();
  CHECK(fourth >= std::chrono::seconds{4});
  CHECK(fourth <= std::chrono::seconds{8});
}

TEST_CASE("where processes are not replaced a SIGTERM to one is no pre-emption") {
  Controller controller{WorldSize{1}, {}, {}};
  start(controller, 1);
  CHECK(controller.handle(preempted(0)).empty());
}
