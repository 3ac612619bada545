// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include <raytrain/core/inline.hpp>
#include <raytrain/core/shard_position.hpp>
#include <raytrain/train/taken_data.hpp>

namespace raytrain {

RAYTRAIN_INLINE void TakenData::set_batch_size(std::string const& dataset, std::uint64_t batch_size) {
  std::lock_guard const lock{mutex_};
  batch_sizes_[dataset] = batch_size;
}

RAYTRAIN_INLINE void TakenData::follow(std::string const& dataset, std::shared_ptr<ShardPosition const> position) {
  std::lock_guard const lock{mutex_};
  positions_[dataset] = std::move(position);
}

RAYTRAIN_INLINE auto TakenData::state() const -> State {
  std::lock_guard const lock{mutex_};
  State state{.batch_sizes = batch_sizes_};
  for (auto const& [dataset, position] : positions_) state.positions.emplace(dataset, *position);
  return state;
}

RAYTRAIN_INLINE auto TakenData::is_between_epochs() const -> bool {
  std::lock_guard const lock{mutex_};
  std::optional<ShardPosition> farthest;
  for (auto const& [dataset, batch_size] : batch_sizes_)
    farthest = std::max(farthest, std::optional{*positions_.at(dataset)});
  return farthest && farthest->samples == 0;
}

}  // namespace raytrain
