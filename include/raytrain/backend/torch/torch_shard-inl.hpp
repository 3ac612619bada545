// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <raytrain/backend/torch/torch_batch.hpp>
#include <raytrain/backend/torch/torch_shard.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/data/batch_range.hpp>
#include <raytrain/data/dataset_shard.hpp>

namespace raytrain {

RAYTRAIN_TORCH_INLINE auto TorchBatchRange::Iterator::operator*() const noexcept -> TorchBatch {
  auto const batch = *at_;
  if (taken_ != nullptr) *taken_ = batch.next_position();
  return TorchBatch{batch};
}

RAYTRAIN_TORCH_INLINE auto TorchBatchRange::Iterator::operator++() noexcept -> Iterator& {
  ++at_;
  return *this;
}

RAYTRAIN_TORCH_INLINE auto TorchShard::batches(BatchOptions const& options) -> TorchBatchRange {
  return TorchBatchRange{shard_.batches(options), taken_};
}

}  // namespace raytrain
