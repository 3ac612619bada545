// SPDX-License-Identifier: Apache-2.0
#include <raytrain/train/checkpoint_schedule.hpp>

#include <chrono>
#include <initializer_list>
#include <optional>
#include <string>

#include <doctest/doctest.h>

namespace {

using namespace raytrain;
using namespace std::chrono_literals;
using Fate = CheckpointSchedule::Fate;

constexpr Clock::TimePoint run_start{1h};

// Reports so long after the start, 'w' of each that is written, 'h' of one that is held, 's' of one that is skipped.
auto fates_at(CheckpointSchedule& schedule, std::initializer_list<std::chrono::milliseconds> times,
              bool is_busy = false) -> std::string {
  std::string fates;
  for (auto const time : times) {
    auto const fate = schedule.next(run_start + time, is_busy);
    if (fate == Fate::write) schedule.note_written(run_start + time);
    fates += fate == Fate::write ? 'w' : fate == Fate::hold ? 'h' : 's';
  }
  return fates;
}

auto schedule_of(CheckpointConfig const& config, std::optional<CheckpointInterval::Seconds> between_failures = {}) {
  return CheckpointSchedule{config, between_failures, run_start};
}

}  // namespace

TEST_CASE("of a number of reports the last one is written, counted from the one that was written last") {
  auto schedule = schedule_of({.every = CheckpointInterval::reports(3)});
  CHECK(fates_at(schedule, {0s, 1s, 2s, 3s, 4s, 5s, 6s}) == "hhwhhwh");
  schedule.note_written(run_start + 6s);  // since a worker was told to stop
  CHECK(fates_at(schedule, {7s, 8s, 9s}) == "hhw");
  auto each = schedule_of({.every = CheckpointInterval::reports(1)});
  CHECK(fates_at(each, {0s, 1s}) == "ww");
}

TEST_CASE("after a time the next report is written, and the time is counted from that report") {
  auto schedule = schedule_of({.every = 30s});
  CHECK(fates_at(schedule, {0s, 29999ms, 31s, 60s, 61s}) == "hhwhw");
}

TEST_CASE("a checkpoint that is due while the last one is written waits, is skipped or is held, and stays due") {
  for (auto const& [when_busy, fates] :
       {std::pair{WhenBusy::wait, "hwh"}, std::pair{WhenBusy::skip, "hss"}, std::pair{WhenBusy::replace, "hhh"}}) {
    auto schedule = schedule_of({.every = CheckpointInterval::reports(2), .when_busy = when_busy});
    CHECK(fates_at(schedule, {0s, 1s, 2s}, true) == fates);
    CHECK(fates_at(schedule, {3s}) == "w");
    auto each = schedule_of({.when_busy = when_busy});
    CHECK(fates_at(each, {0s}, true) == (when_busy == WhenBusy::wait ? "w" : when_busy == WhenBusy::skip ? "s" : "h"));
    CHECK(fates_at(each, {1s}) == "w");
  }
}

TEST_CASE("an automatic interval begins with the first report, waits for what that one costs, and goes by the cost") {
  auto schedule = schedule_of({.every = CheckpointInterval::automatic(1h)});
  CHECK(fates_at(schedule, {0s}) == "w");
  CHECK(fates_at(schedule, {10min, 20min}, true) == "hh");
  schedule.note_cost(2s);
  auto const interval =
      std::chrono::duration_cast<std::chrono::milliseconds>(cheapest_interval({.cost = 2s, .between_failures = 1h}));
  CHECK((interval > 115s && interval < 120s));
  CHECK(fates_at(schedule, {interval - 1ms, interval + 1ms}) == "hw");
  schedule.note_cost(0s);
  CHECK(fates_at(schedule, {interval + 2ms}) == "w");
}

TEST_CASE("failures that were seen replace what an automatic interval was told of them") {
  auto schedule = schedule_of({.every = CheckpointInterval::automatic(1h)}, 1min);
  schedule.note_cost(2s);
  auto const interval =
      std::chrono::duration_cast<std::chrono::milliseconds>(cheapest_interval({.cost = 2s, .between_failures = 1min}));
  CHECK((interval > 14s && interval < 16s));
  CHECK(fates_at(schedule, {interval - 1ms, interval + 1ms}) == "hw");
}
