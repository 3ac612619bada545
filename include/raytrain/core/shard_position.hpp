// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>

namespace raytrain {

/// Where a training stands in its data; says nothing of the number of workers. Two integers, to be stored as such.
struct ShardPosition {
  std::int64_t epoch = 0;
  std::uint64_t samples = 0;  ///< Already handed out in that epoch, to all workers together.
  friend constexpr auto operator<=>(ShardPosition const&, ShardPosition const&) = default;
};

}  // namespace raytrain
