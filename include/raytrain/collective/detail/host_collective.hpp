// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <raytrain/collective/buffer.hpp>
#include <raytrain/collective/detail/group_checks.hpp>
#include <raytrain/collective/detail/host_operations.hpp>
#include <raytrain/collective/detail/operations.hpp>
#include <raytrain/collective/detail/pages.hpp>
#include <raytrain/core/element_type.hpp>
#include <raytrain/core/rank.hpp>

namespace raytrain::detail {

/// One rank's place in a group of ranks that share memory.
///
/// Small arrays are copied into the group, which costs one wait for the others; with larger ones the ranks work on each
/// other's arrays and wait a second time, until all are done, or they send them piece by piece through memory that all
/// see. An array belongs to one rank: ranks that pass the same memory get nonsense.
///
/// Cost: bytes that a rank reads and writes for each byte of the array that is as long on every rank, with n ranks and
///       arrays that all ranks see; in brackets for small ones, with which another division of the work takes less
///       time: all_reduce 1, 1 [n + 1, 2]; broadcast 1, 1; all_gather n, n; reduce_scatter n, 1; reduce 1, 1/n [on root
///       n, 1]; gather 1, 1 [on root n, n]; scatter 1, 1; all_gatherv 1, 1 of what is gathered; a barrier one wait and
///       no bytes. An array that only its owner sees takes as many again on the way to the others, and back.
/// Threads: one at a time, the worker's.
template <class Group>
class HostCollective : public Operations<HostCollective<Group>> {
 public:
  /// `names`: as which ranks errors and warnings name the group's, if they are only some of a world's. Of a rank there
  /// may be one collective at a time.
  ///
  /// Errors: `invalid_call` when there is no group, or no such rank in it.
  HostCollective(std::shared_ptr<Group> group, Rank rank, std::vector<std::uint32_t> names = {})
      : group_{checked_group(Group::collective_name, std::move(group), rank)},
        host_{*group_->barrier_, rank, group_->limits_, group_->memory(), std::move(names)} {}
  HostCollective(HostCollective&&) noexcept = default;
  auto operator=(HostCollective&&) noexcept -> HostCollective& = default;
  ~HostCollective() = default;

  [[nodiscard]] auto rank() const noexcept -> Rank { return host_.rank(); }
  [[nodiscard]] auto size() const noexcept -> WorldSize { return host_.size(); }

  /// Whether the group's `request_stop` was called, as of this rank's last operation; in a world of one, as of now.
  [[nodiscard]] auto stop_agreed() const noexcept -> bool { return host_.stop_agreed(); }

  /// Returns when all ranks have called it.
  void barrier() { host_.barrier(); }

  /// An array of `size` zeros of this rank's that all ranks see, with which operations are fastest. Each rank allocates
  /// as it likes, without the others.
  ///
  /// Errors: `std::bad_alloc`.
  template <Element T>
  [[nodiscard]] auto allocate(std::size_t size) -> Buffer<T> {
    return {group_->allocate(array_bytes<T>(size)), size};
  }

 private:
  friend class Operations<HostCollective>;

  template <class Notice>
  friend void announce(HostCollective& collective, Call const& call, std::span<std::size_t const> counts,
                       Notice const& mine, std::span<Notice> all) {
    collective.host_.announce(call, counts, mine, all);
  }

  void run(Task const& task) { host_.run(task); }

  std::shared_ptr<Group> group_;
  HostOperations<typename Group::Memory> host_;
};

}  // namespace raytrain::detail
