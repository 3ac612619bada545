// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include <raytrain/preprocess/column_statistics.hpp>

namespace raytrain::detail {

/// Whether the differences can be what rounding makes of values that are all the same.
///
/// Source: T. F. Chan, G. H. Golub, R. J. LeVeque, "Algorithms for Computing the Sample Variance", The American
///         Statistician 37(3), 1983: the error of the two-pass algorithm.
[[nodiscard]] inline auto is_constant(ValueMoments const& moments) noexcept -> bool {
  constexpr auto epsilon = std::numeric_limits<double>::epsilon();
  auto const of_mean = static_cast<double>(moments.count) * moments.mean * epsilon;
  return moments.variance() <= static_cast<double>(moments.count) * epsilon * moments.variance() + of_mean * of_mean;
}

/// Mean and deviation, which is 1 for values that are all the same; none of no values.
[[nodiscard]] inline auto standard_scale(ValueMoments const& moments) -> std::optional<std::pair<double, double>> {
  if (moments.count == 0) return std::nullopt;
  return std::pair{moments.mean, is_constant(moments) ? 1 : std::sqrt(moments.variance())};
}

}  // namespace raytrain::detail
