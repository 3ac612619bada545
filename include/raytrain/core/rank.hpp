// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>

namespace raytrain {

/// Position of a worker in its world, counted from 0.
struct Rank {
  std::uint32_t value{};
  friend constexpr auto operator<=>(Rank, Rank) = default;
};

/// Number of workers that train together; at least 1 in a running world.
struct WorldSize {
  std::uint32_t value{};
  friend constexpr auto operator<=>(WorldSize, WorldSize) = default;
};

}  // namespace raytrain
