// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace raytrain {

/// How the values of all ranks become one, taken in rank order unless a `Reduction` says otherwise.
enum class ReduceOp : std::uint8_t {
  sum,      ///< Integers wrap around.
  average,  ///< The sum divided by the world size; integers round toward zero.
  min,      ///< A NaN on any rank is the result.
  max,      ///< A NaN on any rank is the result.
  product,  ///< Integers wrap around.
};

[[nodiscard]] constexpr auto to_string(ReduceOp op) noexcept -> std::string_view {
  switch (op) {
    case ReduceOp::sum: return "sum";
    case ReduceOp::average: return "average";
    case ReduceOp::min: return "min";
    case ReduceOp::max: return "max";
    case ReduceOp::product: return "product";
  }
  return "unknown";
}

}  // namespace raytrain
