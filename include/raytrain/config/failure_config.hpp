// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>

namespace raytrain {

/// What follows when a worker fails: whether all workers are started again, and after which time.
///
/// They go on from the newest checkpoint, or begin anew where there is none. A failure is what one or more workers
/// throw until all have ended, or that they are lost or hang. Never started again is a run that was stopped, one whose
/// own disk or critical callback failed, one of which a worker threw `NotRetryable` or an `Error` with one of the codes
/// `invalid_config`, `invalid_call`, `invalid_report` and `foreign_run`, and one that has failed three times in a row
/// by the same error at the same step.
struct FailureConfig {
  /// Workers are looked at every 100 ms, and share their cores with others.
  static constexpr std::chrono::milliseconds shortest_hang_timeout{500};

  int max_failures = 0;  ///< So many failures of one `fit()` are followed by another attempt; -1: any number.
  /// A SIGTERM to the process of a worker, and not to the program that has started it (`Launch::processes`,
  /// `Launch::mpirun`), says that the process will be taken away, as Slurm, earlyoom and machines on loan do. All
  /// workers then end as at a stop, and are started again: with `Launch::processes` that one gets a new
  /// process, with `Launch::mpirun` all do. So many attempts of one `fit()` may end by that without being failures,
  /// also where the process was killed before it had ended; -1: any number; 0: each of them is a failure. A stop within
  /// a second of it counts in its place.
  int max_preemptions = -1;
  /// The time before the second attempt, not negative. It doubles with each failure after which no new checkpoint came,
  /// up to `max_backoff`, and is shortened by up to a half, by random, so that many runs do not come back at once.
  /// Processes that are taken away have a wait of their own, which grows alike, and do not lengthen that of failures.
  std::chrono::milliseconds backoff{10};
  std::chrono::milliseconds max_backoff{30'000};  ///< Not below `backoff`.
  /// A worker that shows no sign of life for so long has failed; the error says what its thread does, and where. Signs
  /// are reports, batches, collectives, `progress` and `heartbeat`; `TrainContext::expect` announces longer work. Who
  /// waits for another worker in a collective is not to blame. 0: never, as workers wait for each other no longer than
  /// `RunConfig::collective_timeout` anyway; a warning tells of a silence 10 times as long as any before, from 0.8 s
  /// on. With `Launch::processes` its process is ended at once, with `Launch::mpirun` its job; else one that does not
  /// return is treated as `RunConfig::on_hang` says. One that waits for its checkpoints to be written, or for a
  /// slow callback, is warned of and goes on. 0, or at least 500 ms.
  std::chrono::milliseconds hang_timeout{0};

  /// Errors: `invalid_config`, naming the field, its value and what to write instead.
  void validate() const;

  /// The time to wait after `failures` of them, or as many pre-emptions, in a row, from 1, without a new checkpoint
  /// between; `random` decides by how much it is shortened.
  [[nodiscard]] auto backoff_after(std::uint32_t failures, std::uint64_t random) const -> std::chrono::milliseconds;
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/config/failure_config-inl.hpp>
#endif
