// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include <raytrain/core/identifiers.hpp>
#include <raytrain/train/controller.hpp>
#include <raytrain/train/controller_events.hpp>

namespace simulation {

using Duration = std::chrono::nanoseconds;  // whole ones, so that skipping time rounds nothing

/// A training and the machines it runs on. All workers step together.
struct Job {
  raytrain::WorldSize workers{1};
  std::uint64_t reports = 1;           ///< Of each worker, until it is done.
  std::uint64_t checkpoint_every = 1;  ///< So many reports; divides `reports`.
  Duration report_interval{};          ///< The time of the steps between two reports.
  Duration stall{};                    ///< For which a checkpoint stops training.
  Duration stage{};                    ///< From then until a part lies in the store. Less than a checkpoint's interval.
  Duration commit{};                   ///< From the last part until the checkpoint is committed.
  Duration launch{};                   ///< From the launch until the workers run, not 0.
  Duration load{};                     ///< From then until the first step.
  Duration message{1};                 ///< The longest time that a message takes; all take different ones.
  Duration notice{};                   ///< From the end of a process until it is known.
  Duration unwind{1};                  ///< The longest time that a worker takes to return after it was told to.
  Duration return_grace{};             ///< After it, a worker that has not returned is ended with its process.
  Duration start_timeout{};
  Duration between_failures{};   ///< The mean time between two failures of the whole job; they are independent.
  double hangs = 0;              ///< So large a part of the failures are hangs,
  double exceptions = 0;         ///< and so large a one exceptions. The others are lost processes.
  double late = 0;               ///< What ended workers still had to say comes so often in a later attempt.
  bool skips_quiet_time = true;  ///< Between failures only some checkpoints are simulated, the others pass at once.
  raytrain::RunPolicy policy{};  ///< With `replaces_processes` and without a score.
  std::uint64_t seed = 0;
};

/// What came of a run.
struct Outcome {
  raytrain::RunState state{};
  Duration elapsed{};
  std::uint64_t kept_reports = 0;  ///< Of each worker.
  std::uint64_t attempts = 0;
  std::uint64_t failures = 0;  ///< Of workers and their processes, those that came while another one was handled too.
  std::uint64_t checkpoints = 0;  ///< That were committed, and simulated.
  std::uint64_t skipped_checkpoints = 0;
  std::uint64_t messages = 0;          ///< From workers.
  std::uint64_t refused_messages = 0;  ///< Those of them that came too late.
  std::uint64_t messages_to_workers = 0;
  std::uint64_t messages_of_returns = 0;  ///< To workers, of a rank that has returned.
  std::string reason;                     ///< The last warning: why the workers were not started again.
  friend auto operator==(Outcome const&, Outcome const&) -> bool = default;
};

/// The part of the time that went into steps that were kept.
[[nodiscard]] inline auto goodput(Job const& job, Outcome const& outcome) -> double {
  auto const kept = job.report_interval * static_cast<std::int64_t>(outcome.kept_reports);
  return std::chrono::duration<double>{kept} / std::chrono::duration<double>{outcome.elapsed};
}

}  // namespace simulation
