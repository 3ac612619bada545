// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include <raytrain/collective/buffer.hpp>
#include <raytrain/collective/collective.hpp>
#include <raytrain/collective/collective_group.hpp>
#include <raytrain/collective/detail/barrier.hpp>
#include <raytrain/collective/detail/barrier_collective.hpp>
#include <raytrain/collective/local.hpp>
#include <raytrain/collective/wait_limits.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/usable_cores.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE auto OneAddressSpace::location_of(std::span<std::byte const> array) noexcept -> ArrayLocation {
  return {reinterpret_cast<std::uintptr_t>(array.data()), ArrayLocation::Kind::shared};
}

}  // namespace raytrain::detail

namespace raytrain {

RAYTRAIN_INLINE LocalGroup::LocalGroup(WorldSize size, WaitLimits limits)
    : BarrierGroup{"LocalGroup", std::move(limits)},
      memory_{
          detail::allocate_pages(detail::BarrierState::bytes_for(detail::checked_size("LocalGroup", size, max_size)))} {
  barrier_ =
      &detail::BarrierState::construct(memory_.get(), {.count = size, .spin = size.value <= usable_core_count()});
}

RAYTRAIN_INLINE auto LocalGroup::duplicate(Collective& ranks) -> std::shared_ptr<LocalGroup> {
  std::array<std::uint64_t, 1> where{};
  if (ranks.rank() == Rank{0}) {
    // All ranks have begun this operation, so that each has taken the one before.
    given_ = std::make_shared<LocalGroup>(size(), limits_);
    adopt(given_);
    where[0] = reinterpret_cast<std::uintptr_t>(&given_);
  }
  ranks.broadcast(where, Rank{0});
  return *reinterpret_cast<std::shared_ptr<LocalGroup> const*>(where[0]);
}

RAYTRAIN_INLINE auto local_collectives(WorldSize size, WaitLimits limits) -> Collectives {
  auto const group = std::make_shared<LocalGroup>(size, std::move(limits));
  return {group, [group](Rank rank) { return std::make_unique<LocalCollective>(group, rank); }};
}

}  // namespace raytrain
