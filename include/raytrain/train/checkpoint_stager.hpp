// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <future>

#include <raytrain/checkpoint/checkpoint_draft.hpp>
#include <raytrain/checkpoint/checkpoint_store.hpp>
#include <raytrain/checkpoint/snapshot_buffers.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/exec/background_thread.hpp>
#include <raytrain/launch/worker_link.hpp>
#include <raytrain/train/taken_data.hpp>

namespace raytrain {

/// Writes one worker's parts of checkpoints beside the training, one at a time, and tells the controller of each.
///
/// Threads: the worker's.
class CheckpointStager {
 public:
  CheckpointStager(CheckpointStore& store, BackgroundThread& writer, WorkerLink& link)
      : store_{store}, writer_{writer}, link_{link} {}

  CheckpointStager(CheckpointStager const&) = delete;
  auto operator=(CheckpointStager const&) -> CheckpointStager& = delete;
  ~CheckpointStager();

  /// Makes a replicated draft definite once this worker's part before it is written, in the memory that the one before
  /// had: so one copy of the state is held, and not two. Nothing but that wait for any other.
  ///
  /// Errors: `io` of the part before.
  void materialize(CheckpointDraft& draft);

  /// Waits until this worker's part before this one is written.
  ///
  /// Errors: `io` of the part before; the part at hand is then not written.
  void stage(CheckpointDraft draft, CheckpointOrdinal checkpoint, TakenData::State taken);

  /// Waits until nothing is being written. Errors: `io`, once, when a part could not be written.
  void drain();

 private:
  [[nodiscard]] auto rank() const noexcept -> Rank { return link_.placement().world_rank; }

  CheckpointStore& store_;
  BackgroundThread& writer_;
  WorkerLink& link_;
  SnapshotBuffers buffers_;
  std::future<std::exception_ptr> writing_;
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/train/checkpoint_stager-inl.hpp>
#endif
