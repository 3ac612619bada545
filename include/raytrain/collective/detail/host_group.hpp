// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include <raytrain/collective/detail/rendezvous.hpp>
#include <raytrain/collective/wait_limits.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/rank.hpp>

namespace raytrain::detail {

/// What the groups of ranks that share memory have in common: what the ranks are told from outside.
///
/// Threads: every function from any thread; where ranks are processes, of any of them.
class HostGroup {
 public:
  static constexpr std::uint32_t max_size = MeetingPlace::max_members;

  HostGroup(HostGroup const&) = delete;
  auto operator=(HostGroup const&) -> HostGroup& = delete;

  [[nodiscard]] auto size() const noexcept -> WorldSize { return place_->members(); }

  /// Makes the collectives' `stop_agreed` true on every rank, from the same operation on: one in which not all ranks
  /// have arrived yet.
  void request_stop() noexcept { place_->request_stop(); }

  /// Makes ranks that wait for others, and all later calls, throw `Stopped`. What all ranks are at work on ends first.
  void abort() noexcept { place_->abort(); }

  /// A worker's function has ended: ranks that wait for it, and all later calls, throw `Error{Errc::rank_mismatch}`.
  /// After `abort` they throw `Stopped`; so a worker that fails aborts before it leaves.
  void leave(Rank rank) noexcept { place_->end(rank); }

 protected:
  HostGroup(char const* name, WaitLimits limits) : limits_{std::move(limits)} { limits_.validate(name); }
  ~HostGroup() = default;

  /// Errors: `invalid_call`.
  static auto checked_size(char const* name, WorldSize size) -> WorldSize {
    if (size.value < 1 || size.value > max_size) {
      throw Error{Errc::invalid_call, name,
                  "needs from 1 to " + std::to_string(max_size) + " workers (got " + std::to_string(size.value) + ")"};
    }
    return size;
  }

  WaitLimits limits_;
  MeetingPlace* place_ = nullptr;
};

}  // namespace raytrain::detail
