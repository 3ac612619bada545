// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include <raytrain/preprocess/column_statistics.hpp>

namespace raytrain::detail {

/// Whether the differences are no larger than what rounding makes of values that are all the same.
[[nodiscard]] inline auto is_constant(ValueMoments const& moments) noexcept -> bool {
  auto const rounding = 4 * std::numeric_limits<double>::epsilon() * moments.mean;
  return moments.variance() <= rounding * rounding;
}

/// Mean and deviation, which is 1 for values that are all the same; none of no values.
[[nodiscard]] inline auto standard_scale(ValueMoments const& moments) -> std::optional<std::pair<double, double>> {
  if (moments.count == 0) return std::nullopt;
  return std::pair{moments.mean, is_constant(moments) ? 1 : std::sqrt(moments.variance())};
}

}  // namespace raytrain::detail
