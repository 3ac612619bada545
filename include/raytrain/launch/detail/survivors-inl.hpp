// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <ranges>
#include <vector>

#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/launch/detail/survivors.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE auto rank_without(std::vector<Rank> const& lost, Rank rank_of_job) -> Rank {
  auto const before = std::ranges::lower_bound(lost, rank_of_job) - lost.begin();
  return {rank_of_job.value - static_cast<std::uint32_t>(before)};
}

RAYTRAIN_INLINE void Survivors::lose_rank(Rank rank_of_job) {
  auto const place = std::ranges::lower_bound(lost_, rank_of_job);
  if (place == lost_.end() || *place != rank_of_job) lost_.insert(place, rank_of_job);
}

RAYTRAIN_INLINE void Survivors::begin(Attempt attempt) { worlds_.push_back({attempt, lost_}); }

RAYTRAIN_INLINE auto Survivors::workers() const noexcept -> WorldSize {
  auto const lost = worlds_.empty() ? 0 : worlds_.back().lost.size();
  return {job_.value - static_cast<std::uint32_t>(lost)};
}

RAYTRAIN_INLINE auto Survivors::worker_of(Rank rank_of_job, Attempt attempt) const -> Rank {
  for (auto const& world : worlds_ | std::views::reverse) {
    if (world.first <= attempt) return rank_without(world.lost, rank_of_job);
  }
  return rank_of_job;
}

RAYTRAIN_INLINE auto Survivors::has(Rank worker, Attempt attempt) const -> bool {
  for (Rank rank; rank.value < job_.value; ++rank.value) {
    auto const is_lost = std::ranges::binary_search(lost_, rank);
    if (!is_lost && worker_of(rank, attempt) == worker) return true;
  }
  return false;
}

}  // namespace raytrain::detail
