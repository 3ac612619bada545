// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <raytrain/collective/collective.hpp>
#include <raytrain/collective/collective_group.hpp>
#include <raytrain/collective/detail/barrier.hpp>
#include <raytrain/collective/detail/barrier_operations.hpp>
#include <raytrain/collective/detail/task.hpp>
#include <raytrain/collective/wait_limits.hpp>
#include <raytrain/core/identifiers.hpp>

namespace raytrain {

class DeviceCollective;

namespace detail {

/// What the groups of ranks that share memory have in common. After `abort` what all ranks are at work on ends first if
/// they are threads; of processes one may be gone, so that arrays in shared memory may be half done, and written to
/// until each rank has thrown.
///
/// Threads: every function from any thread; where ranks are processes, of any of them.
class BarrierGroup : public CollectiveGroup {
 public:
  static constexpr std::uint32_t max_size = BarrierState::max_members;

  [[nodiscard]] auto size() const noexcept -> WorldSize override { return barrier_->members(); }

  /// Whether something has closed the group's barrier: an abort, an error, a worker's end.
  [[nodiscard]] auto is_closed() const noexcept -> bool { return barrier_->is_closed(); }
  [[nodiscard]] auto is_aborted() const noexcept -> bool { return barrier_->is_aborted(); }
  [[nodiscard]] auto is_broken() const noexcept -> bool { return barrier_->is_broken(); }

  /// One rank can take part in nothing any more: those that wait for others, and all later calls, throw `Stopped`.
  void break_up() noexcept { barrier_->break_up(); }

 protected:
  BarrierGroup(char const* name, WaitLimits limits) : limits_{std::move(limits)} { limits_.validate(name); }
  ~BarrierGroup() override = default;

  WaitLimits limits_;
  BarrierState* barrier_ = nullptr;

 private:
  void do_request_stop() noexcept override { barrier_->request_stop(); }
  void do_abort() noexcept override { barrier_->abort(); }
  void do_leave(Rank rank, std::uint64_t) noexcept override { barrier_->end(rank); }
};

/// One rank's side of a group of ranks that share memory.
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
class BarrierCollective final : public Collective {
 public:
  /// `world_ranks`: the ranks in the world of this group's ranks, in order, by which errors and warnings name them;
  /// empty where the group is the whole world. `watch`: as of `BarrierMember`. A rank has one collective of a group at
  /// a time.
  ///
  /// Errors: `invalid_call` when there is no group, or no such rank in it.
  BarrierCollective(std::shared_ptr<Group> group, Rank rank, std::vector<std::uint32_t> world_ranks = {},
                    std::function<void(std::chrono::nanoseconds)> watch = {})
      : group_{checked_group(Group::collective_name, std::move(group), rank)},
        operations_{
            *group_->barrier_,
            {.rank = rank, .limits = group_->limits_, .world_ranks = std::move(world_ranks), .watch = std::move(watch)},
            group_->memory()} {}
  BarrierCollective(BarrierCollective&&) noexcept = default;
  auto operator=(BarrierCollective&&) noexcept -> BarrierCollective& = default;
  ~BarrierCollective() override = default;

  [[nodiscard]] auto rank() const noexcept -> Rank override { return operations_.rank(); }
  [[nodiscard]] auto size() const noexcept -> WorldSize override { return operations_.size(); }

  /// Whether the group's `request_stop` was called, as of this rank's last operation; in a world of one, as of now.
  [[nodiscard]] auto stop_agreed() const noexcept -> bool override { return operations_.stop_agreed(); }

  [[nodiscard]] auto start(Task const& task) -> Pending override {
    operations_.run(task);
    return {};
  }

  [[nodiscard]] auto duplicate() -> std::unique_ptr<Collective> override {
    start({{Operation::duplicate}}).wait();
    return std::make_unique<BarrierCollective>(group_->duplicate(*this), rank(), operations_.world_ranks());
  }

  /// In memory that all ranks see.
  [[nodiscard]] auto allocate_zeros(std::size_t size_bytes) -> std::shared_ptr<void> override {
    return group_->allocate(size_bytes);
  }

 private:
  friend class raytrain::DeviceCollective;

  /// `BarrierOperations::exchange_headers`
  template <class Header>
  void exchange_headers(Task const& task, Header const& mine, std::span<Header> all) {
    operations_.exchange_headers(task, mine, all);
  }

  std::shared_ptr<Group> group_;
  BarrierOperations<typename Group::Memory> operations_;
};

}  // namespace detail
}  // namespace raytrain
