// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <raytrain/config/checkpoint_interval.hpp>

namespace raytrain {

/// Which end of a score is the better one.
enum class ScoreOrder : std::uint8_t { max, min };

/// When `report` with a checkpoint returns.
enum class CheckpointMode : std::uint8_t {
  async,  ///< As soon as the state is copied; it is written while training goes on.
  sync,   ///< After the checkpoint is committed.
};

/// What becomes of a checkpoint that is due before the last one is committed.
enum class WhenBusy : std::uint8_t {
  wait,     ///< `report` waits until the last one's files are written.
  skip,     ///< Its state is not even copied, also that of the last report of all. The next report is due.
  replace,  ///< Its state is copied in place of the one that was copied before, as that of a report that is not due.
};

/// What follows when a checkpoint cannot be written: its store throws `Errc::io`.
enum class OnFailedWrite : std::uint8_t {
  fail,  ///< The run fails, or its workers are started again, as `FailureConfig` says.
  warn,  ///< It goes on with a warning, and writes the next one. It fails in the end if that was the last one.
};

class CheckpointStore;

/// Makes the store of the run in a folder, in each process of the job. What it throws ends `fit()`.
using MakeCheckpointStore = std::function<std::shared_ptr<CheckpointStore>(std::filesystem::path const& run_path)>;

/// Which checkpoints are written, which stay, where they lie, and when a report returns.
struct CheckpointConfig {
  /// At least 1. So many of the best ones stay, and the newest beside them; unset: all. While the disk is busy about 5
  /// more wait to be deleted.
  std::optional<int> num_to_keep{};
  /// Metric that ranks checkpoints; empty: the newest rank highest, and the two
  /// fields below must keep their defaults.
  std::string score_attribute{};
  ScoreOrder score_order = ScoreOrder::max;  ///< Whether a high or a low score is kept.
  /// Whether a score that is NaN or infinite ends the run with an error, and its checkpoint is not kept. Else it is
  /// warned of; such a checkpoint is never the best.
  bool fail_on_non_finite_score = false;
  CheckpointMode mode = CheckpointMode::async;
  /// Unset: each report with a checkpoint is written. Else one in so many reports, or in such a time, is; of the
  /// others the state is only copied, in place of the copy before, without a wait for the disk. The newest copy is
  /// written when training functions end: by a return, by a stop, or since a worker has failed, as long as those that
  /// have a part of it live and none is killed, or throws, within `report`. For that the workers have the time that
  /// they have to return after a stop, `RunConfig::stop_grace` and `return_grace`: in processes and on ranks a write
  /// that takes longer is lost. A copy takes as much memory as a state, beside the one that is being written. Who
  /// reports a checkpoint then waits for the other ranks. A state that has no file on any rank is committed
  /// at each report.
  std::optional<CheckpointInterval> every{};
  WhenBusy when_busy = WhenBusy::wait;  ///< `wait` with `CheckpointMode::sync`.
  OnFailedWrite on_failed_write = OnFailedWrite::fail;
  /// So many times a rank tries again to write its files, not negative: 0.1 s later, then after twice the time each
  /// time, up to 10 s. Not once the run is aborted. On threads commits and deletions wait meanwhile. A commit that
  /// fails ends the run.
  int write_retries = 0;
  /// So many ranks beside rank 0, those from 1 on, copy what rank 0 writes of state that is the same on every rank
  /// (`CheckpointDraft::replicated`, as all that `save` makes of models), not negative. Each rank keeps that and what
  /// it has written of the newest committed checkpoint in memory until the end of `fit()`, so that the next attempt
  /// reads nothing of it from the store as long as one of the processes with a copy lives: another process gets it from
  /// there. With `Launch::mpirun` a lost process ends the job, and all copies with it, unless MPI goes on with those
  /// that are left (ULFM). The files in the store are not verified before, unless the attempt before has committed
  /// none: when a worker reads one that nobody has in memory, and it is damaged, the next attempt begins with an older
  /// checkpoint, and that does not count for `FailureConfig::max_failures`. 0: the store is read. On threads, which
  /// live together, 1 is as good as more. Takes the memory of a state on each of these ranks, beside the one that is
  /// being written, and of one on every rank from a restart to the next commit. A report with a checkpoint then waits,
  /// up to 1 s, for the commit of the one before.
  int memory_copies = 0;
  /// Unset: a `DirectoryStore` in the run's folder. The same in every process: they must see the same checkpoints.
  MakeCheckpointStore store{};

  /// Errors: `invalid_config`, naming the field, its value and what to write instead.
  void validate() const;
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/config/checkpoint_config-inl.hpp>
#endif
