// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include <raytrain/collective/collective_group.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain {

RAYTRAIN_INLINE void CollectiveGroup::request_stop() noexcept {
  do_request_stop();
  std::scoped_lock const lock{mutex_};
  stop_requested_ = true;
  tell_duplicates([](CollectiveGroup& duplicate) { duplicate.request_stop(); });
}

RAYTRAIN_INLINE void CollectiveGroup::abort() noexcept {
  do_abort();
  std::scoped_lock const lock{mutex_};
  aborted_ = true;
  tell_duplicates([](CollectiveGroup& duplicate) { duplicate.abort(); });
}

RAYTRAIN_INLINE void CollectiveGroup::leave(Rank rank, std::uint64_t operations) noexcept {
  do_leave(rank, operations);
  std::scoped_lock const lock{mutex_};
  // Nobody counts the operations of duplicates: there a wait for that rank ends as `WaitLimits` say, or by the stop.
  if (operations != 0) {
    if (stop_requested_) tell_duplicates([](CollectiveGroup& duplicate) { duplicate.abort(); });
    return;
  }
  if (!first_left_) first_left_ = rank;
  tell_duplicates([rank](CollectiveGroup& duplicate) { duplicate.leave(rank); });
}

RAYTRAIN_INLINE void CollectiveGroup::adopt(std::shared_ptr<CollectiveGroup> const& duplicate) {
  std::scoped_lock const lock{mutex_};
  std::erase_if(duplicates_, [](auto const& each) { return each.expired(); });
  duplicates_.emplace_back(duplicate);
  if (stop_requested_) duplicate->request_stop();
  if (aborted_) duplicate->abort();
  if (first_left_) duplicate->leave(*first_left_);
}

template <class Tell>
void CollectiveGroup::tell_duplicates(Tell const& tell) noexcept {
  for (auto const& each : duplicates_) {
    if (auto const duplicate = each.lock()) tell(*duplicate);
  }
}

}  // namespace raytrain

namespace raytrain::detail {

RAYTRAIN_INLINE auto checked_size(char const* name, WorldSize size, std::uint32_t largest) -> WorldSize {
  if (size.value >= 1 && size.value <= largest) return size;
  throw Error{Errc::invalid_call, name,
              "needs from 1 to " + std::to_string(largest) + " workers (got " + std::to_string(size.value) + ")"};
}

}  // namespace raytrain::detail
