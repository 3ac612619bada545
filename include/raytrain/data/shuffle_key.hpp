// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>

namespace raytrain {

/// What the order of an epoch follows from, besides the number of rows.
struct ShuffleKey {
  std::uint64_t seed{};
  std::uint64_t epoch{};
  friend constexpr auto operator<=>(ShuffleKey const&, ShuffleKey const&) = default;
};

}  // namespace raytrain
