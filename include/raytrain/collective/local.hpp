// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include <raytrain/collective/buffer.hpp>
#include <raytrain/collective/collective.hpp>
#include <raytrain/collective/detail/host_operations.hpp>
#include <raytrain/collective/detail/operations.hpp>
#include <raytrain/collective/detail/pages.hpp>
#include <raytrain/collective/local_group.hpp>
#include <raytrain/core/element_type.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/rank.hpp>

namespace raytrain {

namespace detail {

/// The memory of threads: each sees every array where it is.
struct OneAddressSpace {
  static constexpr bool sees_all = true;
  static auto place_of(std::span<std::byte const> array) noexcept -> Place {
    return {reinterpret_cast<std::uintptr_t>(array.data()), 0};
  }
  static auto address(Rank, Place place) noexcept -> std::byte* { return reinterpret_cast<std::byte*>(place.offset); }
};

}  // namespace detail

/// One worker's place in a `LocalGroup`: exchanges arrays with the group's other threads, in memory they all see.
///
/// Small arrays are copied into the group, which costs one wait for the others; with larger ones the ranks work on
/// each other's arrays and wait a second time, until all are done. An array belongs to one rank: ranks that pass the
/// same memory get nonsense.
///
/// Cost: bytes that a rank reads and writes for each byte of the array that is as long on every rank, with n ranks; in
///       brackets for small arrays, with which another division of the work takes less time:
///       all_reduce 1, 1 [n + 1, 2]; broadcast 1, 1; all_gather n, n; reduce_scatter n, 1; reduce 1, 1/n [on root n,
///       1]; gather 1, 1 [on root n, n]; scatter 1, 1; all_gatherv 1, 1 of what is gathered; a barrier one wait, no
///       bytes.
/// Threads: one at a time, the worker's.
class LocalCollective : public detail::Operations<LocalCollective> {
 public:
  /// Errors: `invalid_call` when there is no group, or no such rank in it.
  LocalCollective(std::shared_ptr<LocalGroup> group, Rank rank)
      : group_{checked(std::move(group), rank)}, host_{group_->place_, rank, group_->limits_, {}} {}
  LocalCollective(LocalCollective&&) noexcept = default;
  auto operator=(LocalCollective&&) noexcept -> LocalCollective& = default;
  ~LocalCollective() = default;

  [[nodiscard]] auto rank() const noexcept -> Rank { return host_.rank(); }
  [[nodiscard]] auto size() const noexcept -> WorldSize { return host_.size(); }

  /// Whether `LocalGroup::request_stop` was called, as of this rank's last operation; in a world of one, as of now.
  [[nodiscard]] auto stop_agreed() const noexcept -> bool { return host_.stop_agreed(); }

  /// Returns when all ranks have called it.
  void barrier() { host_.barrier(); }

  /// An array of `size` zeros in large pages, if it is large. Operations on other arrays are right as well.
  ///
  /// Errors: `std::bad_alloc`.
  template <Element T>
  [[nodiscard]] auto allocate(std::size_t size) -> Buffer<T> {
    return {detail::allocate_pages(detail::bytes_of<T>(size)), size};
  }

 private:
  friend class detail::Operations<LocalCollective>;

  static auto checked(std::shared_ptr<LocalGroup> group, Rank rank) -> std::shared_ptr<LocalGroup> {
    if (group == nullptr) throw Error{Errc::invalid_call, "LocalCollective", "needs a group (got null)"};
    if (rank.value < group->size().value) return group;
    throw Error{
        Errc::invalid_call, "LocalCollective",
        "rank must be below " + std::to_string(group->size().value) + " (got " + std::to_string(rank.value) + ")"};
  }

  template <Element T>
  void run(detail::Task<T> const& task) {
    host_.run(task);
  }

  std::shared_ptr<LocalGroup> group_;
  detail::HostOperations<detail::OneAddressSpace> host_;
};

static_assert(Collective<LocalCollective>);

}  // namespace raytrain
