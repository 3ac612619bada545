// SPDX-License-Identifier: Apache-2.0
// What a schedule plans, and the faults that a thread survives; chaos.py tries all of them, in every launch.
#include <raytrain/testing/fault_schedule.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <set>
#include <string>

#include <doctest/doctest.h>

#include <raytrain/testing/random_seed.hpp>

#include "../support/thrown_error.hpp"
#include "../train/minimal_run.hpp"

using testing::check_contains;
using testing::Fault;
using testing::FaultPlan;
using testing::FaultSchedule;
using testing::FaultyWorker;
using testing::Moment;
using testing::thrown_error;

namespace {

auto described(FaultSchedule const& schedule, std::uint64_t attempt, std::uint32_t workers = 3) -> std::string {
  auto const fault = schedule.planned({attempt}, {workers});
  return fault ? fault->describe() : "nothing";
}

// Ten steps on threads, of which a report each; a schedule lets them fail.
auto run_with(FaultSchedule const& schedule, std::uint32_t workers = 2) -> Result {
  TemporaryFolder const folder;
  MinimalConfig const config{.scaling = {.num_workers = workers},
                             .run = {.name = "run", .storage_path = folder.path(), .failure = {.max_failures = 3}}};
  auto const train = [schedule](TrainContext& ctx) {
    FaultyWorker faults{schedule, ctx};
    faults.at(Moment::launch);
    for (auto epoch = ctx.first_epoch(); epoch < 10; ++epoch) {
      faults.at(Moment::step);
      ctx.barrier();
      ctx.report(Epoch{epoch, faults.loss(1)},
                 CheckpointDraft::replicated([&](CheckpointDraft& state) { state = draft(std::to_string(epoch)); }));
    }
  };
  return MinimalTrainer{train, config}.fit();
}

}  // namespace

TEST_CASE("a seed always plans the same, another one something else, and each fault and moment comes") {
  auto const seed = testing::random_seed();
  FaultPlan const plan{.launch = Launch::processes, .failures = 4, .latest = 5};
  std::set<std::string> faults, moments, plans;
  std::set<std::uint32_t> workers;
  for (auto i = seed; i < seed + 500; ++i) {
    FaultSchedule const schedule{i, plan}, same{i, plan};
    for (std::uint64_t attempt = 1; attempt <= 4; ++attempt) {
      auto const fault = schedule.planned({attempt}, {3}).value();
      CHECK(described(same, attempt) == fault.describe());
      CHECK(fault.time >= 1);
      CHECK(fault.time <= 5);
      faults.insert(std::string{to_string(fault.fault)});
      moments.insert(std::string{to_string(fault.moment)});
      workers.insert(fault.worker.value);
      plans.insert(fault.describe());
    }
    CHECK(described(schedule, 5) == "nothing");
  }
  CHECK(faults.size() == 13);
  CHECK(moments.size() == 7);
  CHECK(workers == std::set<std::uint32_t>{0, 1, 2});
  CHECK(plans.size() > 400);
}

TEST_CASE("a fault that the launch does not survive is refused, with what to write") {
  auto const refused = thrown_error([] {
    return FaultSchedule{1, {.launch = Launch::threads, .faults = {Fault::exception, Fault::kill}}};
  });
  check_contains(refused, "invalid_config: FaultPlan::faults");
  check_contains(refused, "does not survive kill");
  check_contains(refused, "write {.launch = Launch::processes} or Launch::mpirun");
  check_contains(thrown_error([] {
                   return FaultSchedule{1, {.faults = {Fault::endless_loop}}};
                 }),
                 "does not survive endless_loop");
  CHECK_NOTHROW(FaultSchedule{1, {.launch = Launch::mpirun, .faults = {Fault::endless_loop, Fault::stop}}});
  check_contains(thrown_error([] {
                   return FaultSchedule{1, {.failures = -1}};
                 }),
                 "FaultPlan::failures: must be at least 0 (got -1)");
  check_contains(thrown_error([] {
                   return FaultSchedule{1, {.latest = 0}};
                 }),
                 "FaultPlan::latest: must be at least 1 (got 0)");
}

TEST_CASE("each attempt fails where, when and by whom it is planned") {
  auto const seed = testing::random_seed();
  FaultSchedule const schedule{
      seed, {.failures = 3, .faults = {Fault::exception}, .moments = {Moment::step, Moment::report}, .latest = 3}};
  auto const result = run_with(schedule);
  REQUIRE(result.attempts.size() == 4);
  for (std::uint64_t attempt = 1; attempt <= 3; ++attempt) {
    auto const& failure = result.attempts[attempt - 1].failures.at(0);
    CHECK(failure.happened == "planned: " + described(schedule, attempt, 2));
    CHECK(failure.rank == schedule.planned({attempt}, {2})->worker);
    auto const time = static_cast<std::uint64_t>(schedule.planned({attempt}, {2})->time);
    CHECK(result.attempts[attempt - 1].last_iteration - result.attempts[attempt - 1].first_iteration <= time);
  }
  CHECK(result.history.size() == 10);
}

TEST_CASE("a collective that nobody else calls fails on all, and the next attempt goes on") {
  auto const result = run_with(
      {testing::random_seed(), {.failures = 1, .faults = {Fault::mismatched_collective}, .moments = {Moment::step}}});
  REQUIRE(result.attempts.size() == 2);
  CHECK(result.attempts[0].failures.at(0).code == Errc::rank_mismatch);
  CHECK(result.history.size() == 10);
}

TEST_CASE("one loss is no number where that is planned, and the run goes on") {
  auto const result =
      run_with({testing::random_seed(), {.failures = 1, .faults = {Fault::nan_loss}, .moments = {Moment::step}}}, 1);
  CHECK(result.attempts.size() == 1);
  CHECK(std::ranges::count_if(result.history, [](Report const& report) {
          return std::isnan(report.metrics.number("loss").value());
        }) == 1);
}

TEST_CASE("a slow worker takes ten times as long for each step, once it is slow") {
  FaultSchedule const schedule{1, {.failures = 1, .faults = {Fault::very_slow}, .moments = {Moment::launch}}};
  TemporaryFolder const folder;
  MinimalConfig const config{.run = {.name = "run", .storage_path = folder.path()}};
  using Time = std::chrono::steady_clock;
  auto const train = [&](TrainContext& ctx) {
    FaultyWorker faults{schedule, ctx};
    faults.at(Moment::launch);
    faults.at(Moment::step);
    auto const began = Time::now();
    while (Time::now() - began < std::chrono::milliseconds{3}) {
    }
    auto const worked = Time::now();
    faults.at(Moment::step);
    CHECK(Time::now() - worked >= std::chrono::milliseconds{27});
  };
  (void)MinimalTrainer{train, config}.fit();
}
