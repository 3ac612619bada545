// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <future>
#include <memory>
#include <optional>
#include <utility>

#include <raytrain/checkpoint/checkpoint_draft.hpp>
#include <raytrain/checkpoint/checkpoint_store.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/exec/background_thread.hpp>
#include <raytrain/launch/worker_link.hpp>
#include <raytrain/train/checkpoint_stager.hpp>

namespace raytrain {

RAYTRAIN_INLINE CheckpointStager::~CheckpointStager() {
  if (writing_.valid()) writing_.wait();
}

RAYTRAIN_INLINE void CheckpointStager::materialize(CheckpointDraft& draft) {
  drain();
  draft.materialize(rank(), buffers_);
}

RAYTRAIN_INLINE void CheckpointStager::stage(CheckpointDraft draft, CheckpointOrdinal checkpoint,
                                             TakenData::State taken) {
  drain();
  if (draft.empty()) {
    link_.send(CheckpointRef{
        rank(), checkpoint, {}, draft.metadata(), std::move(taken.batch_sizes), std::move(taken.positions)});
    return;
  }
  // A failure is a value, so that this thread alone holds the exception in the end, and ends it.
  std::packaged_task<std::exception_ptr()> task{
      [this, checkpoint, part = std::optional{std::move(draft)}, taken = std::move(taken)]() mutable {
        try {
          auto ref = store_.stage(*part, rank(), checkpoint);
          part.reset();  // before whoever waits for it makes the next one
          ref.batch_sizes = std::move(taken.batch_sizes);
          ref.positions = std::move(taken.positions);
          link_.send(std::move(ref));
        } catch (Stopped const&) {  // which would be taken for a stop of the run
          return std::make_exception_ptr(Error{Errc::invalid_call, "staging a checkpoint",
                                               "the store has thrown Stopped, which is for collectives",
                                               "mend its CheckpointStore::write_part"});
        } catch (...) {
          return std::current_exception();
        }
        return std::exception_ptr{};
      }};
  writing_ = task.get_future();
  writer_.post([shared = std::make_shared<decltype(task)>(std::move(task))] { (*shared)(); });
}

RAYTRAIN_INLINE void CheckpointStager::drain() {
  if (!writing_.valid()) return;
  if (auto const failure = writing_.get()) std::rethrow_exception(failure);
}

}  // namespace raytrain
