// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <optional>

#include <raytrain/collective/detail/call.hpp>
#include <raytrain/collective/detail/call_errors.hpp>
#include <raytrain/collective/detail/call_history.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/rank.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE void CallHistory::add(Call const& call) noexcept {
  last_[operations_ % kept] = call;
  ++operations_;
  digest_ = mix(digest_, digest_of(call));
}

RAYTRAIN_INLINE auto CallHistory::mismatch(Rank rank, CallHistory const& mine, Rank other_rank,
                                           CallHistory const& other) -> std::optional<Error> {
  auto const end = std::min(mine.operations_, other.operations_);
  auto const most = std::max(mine.operations_, other.operations_);
  for (auto number = most > kept ? most - kept : 0; number < end; ++number) {
    auto const& call = mine.last_[number % kept];
    auto const& other_call = other.last_[number % kept];
    if (call != other_call) return mismatch_error({call}, other_rank, {other_call}, rank);
  }
  return std::nullopt;
}

}  // namespace raytrain::detail
