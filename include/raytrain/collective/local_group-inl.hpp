// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include <raytrain/collective/detail/barrier.hpp>
#include <raytrain/collective/detail/group_checks.hpp>
#include <raytrain/collective/detail/host_group.hpp>
#include <raytrain/collective/detail/pages.hpp>
#include <raytrain/collective/local_group.hpp>
#include <raytrain/collective/wait_limits.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/rank.hpp>
#include <raytrain/core/usable_cores.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE auto OneAddressSpace::place_of(std::span<std::byte const> array) noexcept -> Place {
  return {reinterpret_cast<std::uintptr_t>(array.data()), Place::Kind::shared};
}

}  // namespace raytrain::detail

namespace raytrain {

RAYTRAIN_INLINE LocalGroup::LocalGroup(WorldSize size, WaitLimits limits)
    : HostGroup{"LocalGroup", std::move(limits)},
      memory_{
          detail::allocate_pages(detail::BarrierState::bytes_for(detail::checked_size("LocalGroup", size, max_size)))} {
  barrier_ = &detail::BarrierState::construct(memory_.get(), size, size.value <= usable_core_count(), false);
}

}  // namespace raytrain
