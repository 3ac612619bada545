// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include <raytrain/collective/buffer.hpp>
#include <raytrain/collective/collective.hpp>
#include <raytrain/collective/detail/barrier.hpp>
#include <raytrain/collective/detail/barrier_collective.hpp>
#include <raytrain/collective/wait_limits.hpp>
#include <raytrain/core/identifiers.hpp>

namespace raytrain {

namespace detail {

/// The memory of threads: each sees every array where it is.
struct OneAddressSpace {
  static constexpr bool sees_all = true;
  static auto location_of(std::span<std::byte const> array) noexcept -> ArrayLocation;
  static auto address(ArrayLocation location) noexcept -> std::byte* {
    return reinterpret_cast<std::byte*>(location.offset);
  }
  static auto bounce_buffer(Rank, bool) noexcept -> std::span<std::byte> { return {}; }
};

}  // namespace detail

/// The world of workers that are threads of this process: what their `LocalCollective`s share.
class LocalGroup : public detail::BarrierGroup {
 public:
  /// Errors: `invalid_call` unless the size is from 1 to `max_size`, and what `WaitLimits::validate` throws.
  explicit LocalGroup(WorldSize size, WaitLimits limits = {});

 private:
  template <class Group>
  friend class detail::BarrierCollective;
  using Memory = detail::OneAddressSpace;
  static constexpr char const* collective_name = "LocalCollective";

  static auto memory() noexcept -> Memory { return {}; }
  static auto allocate(std::size_t bytes) -> std::shared_ptr<void> { return detail::allocate_pages(bytes); }

  /// A group of the same ranks, which all call it.
  [[nodiscard]] auto duplicate(Collective& ranks) -> std::shared_ptr<LocalGroup>;

  std::shared_ptr<void> memory_;
  std::shared_ptr<LocalGroup> given_;  ///< The last duplicate, on its way to all ranks.
};

/// One worker's side of a `LocalGroup`: exchanges arrays with the group's other threads, in memory they all see.
using LocalCollective = detail::BarrierCollective<LocalGroup>;

/// A new `LocalGroup`, and a `LocalCollective` for each rank. Errors: as `LocalGroup`.
[[nodiscard]] auto local_collectives(WorldSize size, WaitLimits limits) -> Collectives;

}  // namespace raytrain

#ifdef RAYTRAIN_COMPILED
extern template class raytrain::detail::BarrierCollective<raytrain::LocalGroup>;
#endif

#ifndef RAYTRAIN_COMPILED
#include <raytrain/collective/local-inl.hpp>
#endif
