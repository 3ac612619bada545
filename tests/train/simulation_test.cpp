// SPDX-License-Identifier: Apache-2.0
#include "../../benchmarks/simulation/simulated_run.hpp"

#include <chrono>
#include <cstdint>
#include <random>
#include <stdexcept>

#include <doctest/doctest.h>

#include <raytrain/testing/random_seed.hpp>
#include <raytrain/train/controller_events.hpp>

#include "../../benchmarks/simulation/simulated_job.hpp"

namespace {

using namespace std::chrono_literals;

// One that goes well in 20 to 60 reports 10 s apart, on machines that let it fail some times meanwhile.
auto random_job(std::uint64_t seed) -> simulation::Job {
  std::mt19937_64 random{seed};
  auto const pick = [&](int low, int high) { return std::uniform_int_distribution<int>{low, high}(random); };
  simulation::Job job;
  job.seed = seed;
  job.workers = {static_cast<std::uint32_t>(pick(1, 8))};
  job.checkpoint_every = static_cast<std::uint64_t>(pick(1, 3));
  job.reports = job.checkpoint_every * static_cast<std::uint64_t>(pick(20, 30));
  job.report_interval = 10s;
  job.stall = pick(0, 200) * 1ms;
  job.stage = pick(0, 9000) * 1ms;
  job.commit = pick(0, 15'000) * 1ms;
  job.launch = pick(1, 5000) * 1ms;
  job.load = pick(0, 5000) * 1ms;
  job.message = pick(1, 200) * 1ms;
  job.notice = pick(1, 100) * 1ms;
  job.unwind = pick(1, 2000) * 1ms;
  job.return_grace = 5s;
  job.start_timeout = 30s;
  job.between_failures = pick(20, 200) * 1s;
  job.hangs = pick(0, 1) * 0.3;
  job.exceptions = pick(0, 1) * 0.4;
  job.late = 0.5;
  job.skips_quiet_time = false;
  job.policy.wait_seed = seed;
  job.policy.failure = {.max_failures = pick(-1, 12), .hang_timeout = 15s};
  job.policy.replaces_processes = true;
  if (pick(0, 2) > 0) job.policy.checkpoint.num_to_keep = pick(1, 3);
  return job;
}

}  // namespace

TEST_CASE("in simulated runs that fail again and again nothing that is committed is lost, and each comes to its end") {
  auto const first_seed = raytrain::testing::random_seed();
  simulation::Outcome all;
  std::uint64_t finished = 0;
  for (std::uint64_t walk = 0; walk < 200; ++walk) {
    CAPTURE(first_seed + walk);
    auto job = random_job(first_seed + walk);
    auto const outcome = simulation::SimulatedRun{job}.run();  // throws where the controller breaks an invariant
    CHECK(simulation::SimulatedRun{job}.run() == outcome);
    auto const most = job.policy.failure.max_failures;
    if (most >= 0) CHECK(outcome.attempts <= static_cast<std::uint64_t>(most) + 1);
    auto const share = simulation::goodput(job, outcome);
    CHECK((share >= 0 && share < 1));
    if (outcome.state == raytrain::RunState::finished) {
      CHECK(outcome.kept_reports == job.reports);
      ++finished;
    } else {
      CHECK(outcome.state == raytrain::RunState::errored);
      CHECK((most == 0 || outcome.reason.find("the workers are not started again") == 0));
    }
    all.attempts += outcome.attempts;
    all.checkpoints += outcome.checkpoints;
    all.refused_messages += outcome.refused_messages;

    job.skips_quiet_time = true;
    auto const skipping = simulation::SimulatedRun{job}.run();
    CHECK(skipping.elapsed == outcome.elapsed);
    CHECK(skipping.attempts == outcome.attempts);
    CHECK(skipping.kept_reports == outcome.kept_reports);
    CHECK(skipping.checkpoints + skipping.skipped_checkpoints == outcome.checkpoints);
    all.skipped_checkpoints += skipping.skipped_checkpoints;
  }
  // All of that has happened.
  CHECK((finished > 20 && finished < 200));
  CHECK(all.attempts > 300);
  CHECK(all.checkpoints > 500);
  CHECK(all.skipped_checkpoints > 50);
  CHECK(all.refused_messages > 100);
}

TEST_CASE("a report with a checkpoint takes three messages a worker, however many workers there are") {
  for (auto const workers : {1U, 8U, 64U}) {
    CAPTURE(workers);
    auto job = random_job(1);
    job.workers = {workers};
    job.reports = 10;
    job.checkpoint_every = 1;
    job.between_failures = {};
    auto const outcome = simulation::SimulatedRun{job}.run();
    CHECK(outcome.state == raytrain::RunState::finished);
    CHECK(outcome.messages == workers * (1 + 2 * job.reports + 1));  // beside that it starts and ends
    CHECK(outcome.messages_to_workers == workers * job.reports);
  }
}

TEST_CASE("a simulated job whose parts are not staged before the next checkpoint is refused") {
  auto job = random_job(1);
  job.stage = job.report_interval * 4;
  CHECK_THROWS_AS(simulation::SimulatedRun{job}, std::invalid_argument);
}
