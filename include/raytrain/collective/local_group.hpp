// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include <raytrain/collective/detail/pages.hpp>
#include <raytrain/collective/detail/rendezvous.hpp>
#include <raytrain/collective/wait_limits.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/rank.hpp>
#include <raytrain/core/usable_cores.hpp>

namespace raytrain {

/// The world of workers that are threads of this process: what their `LocalCollective`s share.
///
/// Threads: every function from any thread.
class LocalGroup {
 public:
  static constexpr std::uint32_t max_size = detail::MeetingPlace::max_members;

  /// Errors: `invalid_call` unless the size is from 1 to `max_size`; what `WaitLimits::validate` throws.
  explicit LocalGroup(WorldSize size, WaitLimits limits = {})
      : limits_{std::move(limits)},
        memory_{detail::allocate_pages(detail::MeetingPlace::bytes_for(checked(size)))},
        place_{detail::MeetingPlace::construct(memory_.get(), size, size.value <= usable_cores().size(), false)} {
    limits_.validate("LocalGroup");
  }
  LocalGroup(LocalGroup const&) = delete;
  auto operator=(LocalGroup const&) -> LocalGroup& = delete;
  ~LocalGroup() = default;

  [[nodiscard]] auto size() const noexcept -> WorldSize { return place_.members(); }

  /// Makes `LocalCollective::stop_agreed` true on every rank, from the same operation on: one in which not all ranks
  /// have arrived yet.
  void request_stop() noexcept { place_.request_stop(); }

  /// Makes ranks that wait for others, and all later calls, throw `Stopped`. What all ranks are at work on ends first.
  void abort() noexcept { place_.abort(); }

  /// A worker's function has ended: ranks that wait for it, and all later calls, throw `Error{Errc::rank_mismatch}`.
  /// After `abort` they throw `Stopped`; so a worker that fails aborts before it leaves.
  void leave(Rank rank) noexcept { place_.end(rank); }

 private:
  friend class LocalCollective;

  static auto checked(WorldSize size) -> WorldSize {
    if (size.value < 1 || size.value > max_size) {
      throw Error{Errc::invalid_call, "LocalGroup",
                  "needs from 1 to " + std::to_string(max_size) + " workers (got " + std::to_string(size.value) + ")"};
    }
    return size;
  }

  WaitLimits limits_;
  std::shared_ptr<void> memory_;
  detail::MeetingPlace& place_;
};

}  // namespace raytrain
