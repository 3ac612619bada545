// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <utility>

#include <raytrain/checkpoint/checkpoint_copies.hpp>
#include <raytrain/checkpoint/checkpoint_draft.hpp>
#include <raytrain/checkpoint/snapshot_buffers.hpp>
#include <raytrain/config/checkpoint_config.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/exec/background_thread.hpp>
#include <raytrain/launch/worker_link.hpp>
#include <raytrain/message/message.hpp>
#include <raytrain/train/taken_data.hpp>

namespace raytrain {

class CheckpointStore;

/// Writes one worker's parts of checkpoints beside the training, one at a time, and tells the controller of each. Holds
/// one more, which is not to be written yet.
///
/// Threads: the worker's.
class CheckpointStager {
 public:
  /// What it keeps in memory for the next attempt.
  struct Copies {
    std::shared_ptr<CheckpointCopies> kept{};  ///< With the parts that it writes; none: nothing is kept.
    bool of_replicated = false;                ///< Also what rank 0 writes of replicated drafts, by filling them here.
  };

  /// Where it writes, and for whom.
  struct Options {
    CheckpointStore& store;
    BackgroundThread& store_thread;  ///< Which stages the parts.
    WorkerLink& link;
    OnFailedWrite on_failed_write = OnFailedWrite::fail;  ///< As in `CheckpointConfig`.
    int write_retries = 0;                                ///< Likewise.
    std::stop_token failed{};                             ///< When it fires nothing is tried again.
    Copies copies{};
  };

  explicit CheckpointStager(Options options) : options_{std::move(options)} {}

  CheckpointStager(CheckpointStager const&) = delete;
  auto operator=(CheckpointStager const&) -> CheckpointStager& = delete;
  ~CheckpointStager();

  /// Calls `CheckpointDraft::fill` once this worker's previous part is written, with the memory that that part
  /// had: so one copy of the state is in memory, and not two. The part that is held is given up.
  ///
  /// Errors: `io` of the previous part.
  void fill(CheckpointDraft& draft);

  /// The same without the wait, in the memory of the part that is held.
  void fill_to_hold(CheckpointDraft& draft);

  /// Gives the part to the thread that writes, once this worker's previous part is written. The part that is held is
  /// given up.
  ///
  /// Errors: `io` of the previous part; this one is then not written.
  void stage(CheckpointDraft draft, CheckpointOrdinal checkpoint, TakenData::State taken);

  /// Keeps the part in place of the one that is held, until `stage_held`. Of a part without files, which needs no
  /// writing, the controller is told at once.
  void hold(CheckpointDraft draft, CheckpointOrdinal checkpoint, TakenData::State taken);

  /// Writes the part that is held, if there is one. Errors: as `stage`.
  void stage_held();

  /// Waits until nothing is being written. Errors: `io`, once, when a part could not be written.
  void drain();

 private:
  struct Writing;

  struct Part {
    CheckpointDraft draft;
    CheckpointOrdinal checkpoint{};
    TakenData::State taken;
  };

  // Tries it as often as `write_retries` allows.
  auto write(Part const& part) -> CheckpointRef;
  void give_up_held();
  // False when the worker is aborted, or one of its process has failed.
  auto pause_before(int retry) -> bool;

  [[nodiscard]] auto rank() const noexcept -> Rank { return options_.link.placement().world_rank; }

  Options options_;
  SnapshotBuffers buffers_;
  CheckpointCopies::Files replicated_;  // of the draft that was filled last, until its part is held
  std::optional<Part> held_;
  std::optional<CheckpointOrdinal> held_copy_;  // in `Options::copies`, of the part that is held or told of
  std::shared_ptr<Writing> writing_;            // of the part that was staged last; none: it was waited for
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/train/checkpoint_stager-inl.hpp>
#endif
