// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
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

/// Stages one worker's parts of checkpoints beside the training: the store thread writes them, one at a time, where no
/// reader takes them for a checkpoint, and tells the controller of each. When all ranks' parts are staged the driver
/// commits them. Holds one part more, which is not to be staged yet.
///
/// A part whose content is still to come is waited for on a second thread, one for each worker, so that the store
/// thread writes other workers' parts meanwhile.
///
/// Threads: the worker's.
class CheckpointStager {
 public:
  /// What it keeps in memory for the next attempt.
  struct Copies {
    std::shared_ptr<CheckpointCopies> kept{};  ///< With the parts that it stages; none: nothing is kept.
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
    /// How long a content may still be to come then: a device's work may never end.
    std::chrono::milliseconds grace_after_failure{10'000};
    Copies copies{};
  };

  explicit CheckpointStager(Options options) : options_{std::move(options)} {}

  CheckpointStager(CheckpointStager const&) = delete;
  auto operator=(CheckpointStager const&) -> CheckpointStager& = delete;
  ~CheckpointStager();

  /// Calls `CheckpointDraft::fill` once this worker's previous part is staged, with the memory that that part
  /// had: so one copy of the state is in memory, and not two. The part that is held is given up.
  ///
  /// Errors: `io` of the previous part.
  void fill(CheckpointDraft& draft);

  /// The same without the wait, in the memory of the part that is held.
  void fill_to_hold(CheckpointDraft& draft);

  /// Gives the part to the store thread, once this worker's previous part is staged, and returns before this one is.
  /// The part that is held is given up. Of a part without files, which needs no writing, the controller is told at
  /// once.
  ///
  /// Errors: `io` of the previous part; this one is then not staged.
  void begin_staging(CheckpointDraft draft, CheckpointOrdinal checkpoint, TakenData::State taken);

  /// Keeps the part in place of the one that is held, until `begin_staging_held`. Of a part without files the
  /// controller is told at once, likewise.
  void hold(CheckpointDraft draft, CheckpointOrdinal checkpoint, TakenData::State taken);

  /// As `begin_staging`, for the part that is held, if there is one.
  void begin_staging_held();

  /// Waits until nothing is being staged. Errors: `io`, once, when a part could not be written.
  void finish_staging();

 private:
  struct Staging;

  struct Part {
    CheckpointDraft draft;
    CheckpointDraft replicated;  // of which a copy is kept, and nothing is written here
    CheckpointOrdinal checkpoint{};
    TakenData::State taken;
  };

  // Keeps the copy of the part, and gives up the part that is held. None for a draft without files, which needs no
  // writing: of that one the controller is told here, on the worker's thread, unless the copy is yet incomplete.
  auto prepare_part(CheckpointDraft draft, CheckpointOrdinal checkpoint, TakenData::State taken) -> std::optional<Part>;
  // Posts the part to the store thread, which is done with the part before: at once if it is complete, otherwise when
  // it is, or is given up.
  void post(Part part);
  void tell_of(CheckpointRef ref, TakenData::State taken);
  // On any thread. Called again, it gives the same answer without waiting. False where the part is given up before all
  // its content is there: when the worker is aborted, and some time after one of its process has failed.
  auto complete(Part const& part) -> bool;
  // On the store thread. Tries it as often as `write_retries` allows.
  auto stage_part(Part const& part) -> CheckpointRef;
  void give_up_held();
  // False when the worker is aborted, or one of its process has failed.
  auto pause_before(int retry) -> bool;

  [[nodiscard]] auto rank() const noexcept -> Rank { return options_.link.placement().world_rank; }

  Options options_;
  SnapshotBuffers buffers_;
  CheckpointDraft replicated_;  // of the draft that was filled last, until its part is held
  std::optional<Part> held_;
  std::optional<CheckpointOrdinal> held_copy_;  // in `Options::copies`, of the part that is held or told of
  std::shared_ptr<Staging> staging_;            // of the part that was begun last; none: it was waited for
  std::optional<BackgroundThread> waiting_;     // for contents; made with the first part that needs it
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/train/checkpoint_stager-inl.hpp>
#endif
