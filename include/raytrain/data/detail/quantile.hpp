// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace raytrain::detail {

/// The value below which that part of the values lies, between two of them in proportion, which it puts into another
/// order; of at least one value.
[[nodiscard]] inline auto quantile(std::vector<double>& values, double part) -> double {
  auto const place = part * static_cast<double>(values.size() - 1);
  auto const below = static_cast<std::ptrdiff_t>(place);
  auto const rest = place - std::floor(place);
  std::ranges::nth_element(values, values.begin() + below);
  auto const lower = values[static_cast<std::size_t>(below)];
  if (rest == 0) return lower;
  auto const upper = *std::min_element(values.begin() + below + 1, values.end());
  return lower == upper ? lower : lower * (1 - rest) + upper * rest;
}

}  // namespace raytrain::detail
