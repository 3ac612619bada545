// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include <raytrain/core/inline.hpp>
#include <raytrain/core/shard_position.hpp>
#include <raytrain/core/signs_of_life.hpp>
#include <raytrain/data/batch.hpp>
#include <raytrain/data/batch_range.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/detail/epoch_order.hpp>
#include <raytrain/data/detail/permutation.hpp>

namespace raytrain {

RAYTRAIN_INLINE auto BatchRange::Iterator::operator*() const -> Batch {
  auto batch = (*range_)[index_];
  hand_out(batch);
  return batch;
}

RAYTRAIN_INLINE void BatchRange::Iterator::hand_out(Batch const& batch) const noexcept {
  range_->progress_->position = batch.next_position();
  range_->progress_->is_within_step = !batch.ends_step();
}

RAYTRAIN_INLINE auto BatchRange::Iterator::operator++() noexcept -> Iterator& {
  SignsOfLife::beat_here();
  ++index_;
  return *this;
}

RAYTRAIN_INLINE auto BatchRange::size() const noexcept -> std::size_t {
  return static_cast<std::size_t>((cut_.end - cut_.begin + cut_.step - 1) / cut_.step) * turns_per_step();
}

RAYTRAIN_INLINE auto BatchRange::samples(std::size_t index) const noexcept -> Samples {
  ShardTurn turn{
      .index = static_cast<std::uint32_t>(index % turns_per_step()), .count = turns_per_step(), .shards = cut_.shards};
  turn.shard = turn.index * cut_.world_size.value + cut_.rank.value;
  turn.is_padding = turn.shard >= cut_.shards;
  if (turn.is_padding) turn.shard = cut_.rank.value;
  auto const step_begin = cut_.begin + index / turns_per_step() * cut_.step;
  auto const step_size = std::min(cut_.step, cut_.end - step_begin);
  auto const size = step_size / cut_.shards;
  return {step_begin, step_size, step_begin + turn.shard * size, static_cast<std::size_t>(size), turn};
}

RAYTRAIN_INLINE auto BatchRange::operator[](std::size_t index) const -> Batch {
  auto const [step_begin, step_size, first, size, turn] = samples(index);
  auto const last = index + 1 == this->size();
  auto const next = last ? ShardPosition{cut_.epoch + 1, 0}
                         : ShardPosition{cut_.epoch, step_begin + (turn.ends_step() ? step_size : 0)};
  auto const block = cut_.order == nullptr ? std::optional{first} : cut_.order->block(first, size);
  if (block) return {dataset_.columns(), Batch::Block{*block, size}, next, turn};
  return {dataset_.columns(), Batch::Ordered{cut_.order->rows(first, size), size}, next, turn};
}

RAYTRAIN_INLINE auto BatchRange::seed(std::size_t index) const noexcept -> std::uint64_t {
  auto const of_epoch = detail::SplitMix64{cut_.seed + static_cast<std::uint64_t>(cut_.epoch)}();
  return detail::SplitMix64{of_epoch + samples(index).first}();
}

}  // namespace raytrain
