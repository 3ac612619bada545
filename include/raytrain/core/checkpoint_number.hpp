// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>

namespace raytrain {

/// Position of a checkpoint among those that a rank has reported since its start, counted from 0.
struct CheckpointOrdinal {
  std::uint64_t value{};
  friend constexpr auto operator<=>(CheckpointOrdinal, CheckpointOrdinal) = default;
};

/// Number of a checkpoint in its store, from 1: 12 for checkpoint_000012.
struct CheckpointNumber {
  std::uint64_t value{};
  friend constexpr auto operator<=>(CheckpointNumber, CheckpointNumber) = default;
};

}  // namespace raytrain
