// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include <raytrain/backend/torch/torch_shard.hpp>

namespace job {

/// A worker's batches of `size` without end, one epoch after the other.
class Batches {
 public:
  Batches(raytrain::TorchShard shard, std::int64_t size) : shard_{std::move(shard)}, size_{size} {}

  auto next() -> raytrain::TorchBatch {
    if (!range_ || at_ == range_->end()) {
      range_.emplace(shard_.batches({.batch_size = size_, .epoch = epoch_++, .drop_last = true}));
      at_ = range_->begin();
    }
    auto const batch = *at_;
    ++at_;
    return batch;
  }

 private:
  raytrain::TorchShard shard_;
  std::int64_t size_;
  std::optional<raytrain::TorchBatchRange> range_;
  raytrain::TorchBatchRange::Iterator at_;
  int epoch_ = 0;
};

}  // namespace job
