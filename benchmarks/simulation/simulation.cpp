// SPDX-License-Identifier: Apache-2.0
// A training of many days on many machines that fail, simulated: the real Controller under a virtual clock. Arguments:
// workers, days, seed, and what is simulated:
//   all           with raytrain's delays
//   every_report  the same with checkpoints a quarter of an hour apart, and each of them simulated
//   more_failures the same as all on machines that fail oftener
//   ray_train     the same as all with Ray Train's delays
//   no_failures   the same as every_report on machines that do not fail
// Prints one JSON object. A run that does not end as it should, or breaks what must hold, ends it with status 1.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include <raytrain/train/controller_events.hpp>

#include "../peak_memory.hpp"
#include "simulated_job.hpp"
#include "simulated_run.hpp"

namespace {

using namespace std::chrono_literals;
using simulation::Duration;
using simulation::Job;

auto seconds(double value) -> Duration {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>{value});
}

// The Llama 3 Herd of Models, arXiv 2407.21783, 2024, where it does not say otherwise.
auto llama_3(std::uint32_t workers, double days) -> Job {
  Job job;
  job.workers = {workers};
  // Section 3.3.4 and table 5: 419 unexpected interruptions of 16,384 GPUs in 54 days. Failures are independent.
  job.between_failures = seconds(54 * 86'400.0 / 419 * 16'384 / workers);
  job.hangs = 49.0 / 419;       // network 35 + 7, and NCCL watchdog timeouts 7: the other ranks wait
  job.exceptions = 56.0 / 419;  // software bugs 54, dependencies 2
  // Table 4: 16 million tokens a step at 400 TFLOP/s on each of 16,384 GPUs. Twelve bytes of state for each of 405
  // billion parameters, so 297 MB a GPU: copied to the host at 25 GB/s, times 1.15 as our checkpoints cost.
  auto const step_s = 6.0 * 405e9 * 16 * 1024 * 1024 / (16'384 * 400e12);
  auto const stall_s = 1.15 * 405e9 * 12 / 16'384 / 25e9;
  // Section 3.3.1: 2 TB/s into storage and out of it.
  auto const storage_s = 405e9 * 12 / 2e12 * workers / 16'384;
  job.stall = seconds(stall_s);
  job.stage = job.load = seconds(storage_s);
  job.commit = 100ms;
  // Young, A first order approximation to the optimum checkpoint interval, 1974; whole steps.
  auto const best_s = std::sqrt(2 * stall_s * std::chrono::duration<double>{job.between_failures}.count());
  job.report_interval = seconds(std::max(1.0, std::round(best_s / step_s)) * step_s);
  job.reports = static_cast<std::uint64_t>(seconds(days * 86'400) / job.report_interval);
  // MegaScale, Jiang et al., NSDI 2024, section 3.5: 2,048 GPUs come together in 5 s, more than 10,000 within 30 s.
  job.launch = workers > 2048 ? 30s : 5s;
  // Assumed, besides spare hosts that stand by: what `benchmarks/run recovery` measures with two workers.
  job.message = 1ms;
  job.notice = 10ms;
  job.unwind = 100ms;
  job.return_grace = 5s;
  job.start_timeout = 30min;
  job.late = 0.01;
  job.policy.failure = {.max_failures = -1,
                        .hang_timeout = std::chrono::duration_cast<std::chrono::milliseconds>(seconds(3 * step_s))};
  job.policy.checkpoint.num_to_keep = 2;
  job.policy.replaces_processes = true;
  return job;
}

auto job_of(std::string_view what, Job job) -> Job {
  if (what == "every_report" || what == "no_failures") {
    auto const whole = job.report_interval * static_cast<std::int64_t>(job.reports);
    job.report_interval = 15min;
    job.reports = static_cast<std::uint64_t>(whole / job.report_interval);
    job.skips_quiet_time = false;
    if (what == "no_failures") job.between_failures = {};
  } else if (what == "more_failures") {
    // Kokolis et al., Revisiting Reliability in Large-Scale Machine Learning Research Clusters, arXiv 2410.21680, 2024:
    // 6.5 failures in 1,000 days of a node with 8 GPUs, on RSC-1.
    job.between_failures = seconds(86'400 * 1000 / 6.5 / (job.workers.value / 8.0));
  } else if (what == "ray_train") {
    // Measured with Ray 2.60: it polls every 2 s, and goes on from the checkpoint before the newest one. Its limit for
    // a hang is 600 s. What a checkpoint and a launch cost is taken to be the same.
    job.notice = job.message = 2s;
    job.commit = job.report_interval;
    job.policy.failure.hang_timeout = 600s;
  } else if (what != "all") {
    throw std::invalid_argument{"unknown: " + std::string{what}};
  }
  return job;
}

}  // namespace

auto main(int argc, char** argv) -> int try {
  if (argc != 5) throw std::invalid_argument{"usage: simulation WORKERS DAYS SEED WHAT"};
  auto job = job_of(argv[4], llama_3(static_cast<std::uint32_t>(std::atoi(argv[1])), std::atof(argv[2])));
  job.seed = static_cast<std::uint64_t>(std::atoll(argv[3]));
  auto const before_mib = peak_mib();
  auto const outcome = simulation::SimulatedRun{job}.run();
  if (outcome.state != raytrain::RunState::finished) {
    throw std::runtime_error{"the run did not finish: " + outcome.reason};
  }
  auto const cpu_s = static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
  auto const bytes = (peak_mib() - before_mib) * 1024 * 1024;
  auto const of_each = [&](std::uint64_t count) { return static_cast<double>(count) / job.workers.value; };
  std::string figures;
  for (auto const& [name, figure] : std::initializer_list<std::pair<char const*, double>>{
           {"cpu_s", cpu_s},
           {"us_a_message", cpu_s * 1e6 / static_cast<double>(outcome.messages)},
           {"goodput_percent", 100 * simulation::goodput(job, outcome)},
           {"launches_percent", 100 * (static_cast<double>(outcome.attempts) * job.launch / outcome.elapsed)},
           {"interval_s", std::chrono::duration<double>{job.report_interval}.count()},
           {"failures", static_cast<double>(outcome.failures)},
           {"attempts", static_cast<double>(outcome.attempts)},
           {"checkpoints", static_cast<double>(outcome.checkpoints)},
           {"skipped_checkpoints", static_cast<double>(outcome.skipped_checkpoints)},
           {"refused_messages", static_cast<double>(outcome.refused_messages)},
           {"messages_a_worker", of_each(outcome.messages + outcome.messages_to_workers)},
           {"messages_of_returns_a_worker", of_each(outcome.messages_of_returns)},
           {"bytes_a_worker", bytes / job.workers.value}}) {
    figures += (figures.empty() ? "" : ", ") + ('"' + std::string{name} + "\": ") + std::to_string(figure);
  }
  std::printf("{%s}\n", figures.c_str());
  return 0;
} catch (std::exception const& error) {
  std::fprintf(stderr, "simulation: %s\n", error.what());
  return 1;
}
