// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace raytrain {

/// In which order the values of all ranks become one, where a model leaves a choice: `MpiCollective` between hosts, on
/// one host it keeps rank order; `NcclCollective` everywhere.
enum class Reduction : std::uint8_t {
  automatic,   ///< Whichever sends the fewest bytes between hosts; the same bits for the same placement of ranks.
  rank_order,  ///< Rank order: the same bits for any placement, and those of `LocalCollective`.
};

[[nodiscard]] constexpr auto to_string(Reduction reduction) noexcept -> std::string_view {
  switch (reduction) {
    case Reduction::automatic: return "automatic";
    case Reduction::rank_order: return "rank_order";
  }
  return "unknown";
}

}  // namespace raytrain
