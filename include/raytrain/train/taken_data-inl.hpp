// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include <raytrain/core/inline.hpp>
#include <raytrain/data/batch_range.hpp>
#include <raytrain/train/taken_data.hpp>

namespace raytrain {

RAYTRAIN_INLINE void TakenData::add_shard(std::string const& dataset, ShardProgressPointer progress, bool is_split) {
  std::lock_guard const lock{mutex_};
  if (is_split) split_.insert(dataset);
  progress_.try_emplace(dataset, std::move(progress));
}

RAYTRAIN_INLINE void TakenData::pin(std::string const& dataset, ShardProgressPointer progress) {
  std::lock_guard const lock{mutex_};
  progress_[dataset] = progress;
  pinned_[dataset] = std::move(progress);
}

RAYTRAIN_INLINE auto TakenData::is_pinned(std::string const& dataset) const -> bool {
  std::lock_guard const lock{mutex_};
  return pinned_.contains(dataset);
}

RAYTRAIN_INLINE auto TakenData::begin_batches(std::string const& dataset, ShardProgressPointer const& progress,
                                              std::uint64_t batch_size) -> bool {
  std::lock_guard const lock{mutex_};
  auto& followed = progress_[dataset];
  auto const pinned = pinned_.find(dataset);
  auto const is_bound = pinned != pinned_.end() && progress != pinned->second && progress != followed;
  if (is_bound && (progress->position == ShardPosition{} || progress->position < followed->position)) return false;
  followed = progress;
  batch_sizes_[dataset] = batch_size;
  return true;
}

RAYTRAIN_INLINE auto TakenData::follows(std::string const& dataset, ShardProgressPointer const& progress) const
    -> bool {
  std::lock_guard const lock{mutex_};
  auto const followed = progress_.find(dataset);
  return followed != progress_.end() && followed->second == progress;
}

RAYTRAIN_INLINE auto TakenData::state() const -> State {
  std::lock_guard const lock{mutex_};
  State state{.batch_sizes = batch_sizes_};
  for (auto const& [dataset, progress] : progress_) {
    state.positions.emplace(dataset, progress->position);
    if (!progress->order.empty()) state.orders.emplace(dataset, progress->order);
  }
  return state;
}

RAYTRAIN_INLINE auto TakenData::farthest() const -> std::optional<ShardProgress> {
  std::lock_guard const lock{mutex_};
  auto const rank_of = [&](std::string const& dataset) {
    if (pinned_.contains(dataset)) return 2;
    return split_.contains(dataset) ? 1 : 0;
  };
  auto highest = 0;
  for (auto const& [dataset, batch_size] : batch_sizes_) highest = std::max(highest, rank_of(dataset));
  std::optional<ShardProgress> farthest;
  for (auto const& [dataset, batch_size] : batch_sizes_) {
    if (rank_of(dataset) < highest) continue;
    auto const& progress = *progress_.at(dataset);
    if (!farthest || farthest->position < progress.position) farthest = progress;
  }
  return farthest;
}

RAYTRAIN_INLINE auto TakenData::is_first_lost_position() -> bool {
  std::lock_guard const lock{mutex_};
  return !std::exchange(position_is_lost_, true);
}

RAYTRAIN_INLINE auto TakenData::is_between_epochs() const -> bool {
  auto const at = farthest();
  return at && at->position.samples == 0 && !at->is_within_step;
}

RAYTRAIN_INLINE auto TakenData::is_within_step() const -> bool {
  auto const at = farthest();
  return at && at->is_within_step;
}

}  // namespace raytrain
