// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>

#include <raytrain/collective/collective_group.hpp>
#include <raytrain/collective/detail/barrier.hpp>
#include <raytrain/collective/wait_limits.hpp>
#include <raytrain/core/rank.hpp>

namespace raytrain::detail {

/// What the groups of ranks that share memory have in common. After `abort` what all ranks are at work on ends first if
/// they are threads; of processes one may be gone, so that arrays in shared memory may be half done, and written to
/// until each rank has thrown.
///
/// Threads: every function from any thread; where ranks are processes, of any of them.
class HostGroup : public CollectiveGroup {
 public:
  static constexpr std::uint32_t max_size = BarrierState::max_members;

  [[nodiscard]] auto size() const noexcept -> WorldSize override { return barrier_->members(); }

  /// Whether something has closed the group's barrier: an abort, an error, a worker's end.
  [[nodiscard]] auto is_closed() const noexcept -> bool { return barrier_->is_closed(); }

 protected:
  HostGroup(char const* name, WaitLimits limits) : limits_{std::move(limits)} { limits_.validate(name); }
  ~HostGroup() override = default;

  WaitLimits limits_;
  BarrierState* barrier_ = nullptr;

 private:
  void do_request_stop() noexcept override { barrier_->request_stop(); }
  void do_abort() noexcept override { barrier_->abort(); }
  void do_leave(Rank rank) noexcept override { barrier_->end(rank); }
};

}  // namespace raytrain::detail
