// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <cstddef>

#include <raytrain/backend/torch/detail/batch_thread.hpp>
#include <raytrain/backend/torch/detail/own_default_generator.hpp>
#include <raytrain/backend/torch/detail/step_timer.hpp>
#include <raytrain/data/batch.hpp>
#include <raytrain/data/mapped_batches.hpp>

namespace raytrain::detail {

/// How `TorchBatchRange::map` calls a function: with tensors, generators of the batch, and as a part of the step's
/// data.
struct TorchMapping {
  using Thread = BatchThread;

  static void prepare() { OwnDefaultGenerator::prepare(); }

  template <class Range>
  [[nodiscard]] static auto wait(Range const& range) -> InPhase {
    return {range.timer(), StepTimer::Phase::data};
  }

  template <class Range>
  [[nodiscard]] static auto rows(Range const& range, std::size_t index) -> Batch {
    return range[index].rows();
  }

  template <class Range, class F>
  [[nodiscard]] static auto call(F& function, Range const& range, Batch const& rows, std::size_t index) {
    BatchScope scope{range.seed(index)};
    // Without the timer: all of this is data, whatever the function does behind its columns.
    typename Range::Batch const batch{rows};
    return call_on_batch<at::Generator&>(function, batch, scope.generator());
  }
};

}  // namespace raytrain::detail
