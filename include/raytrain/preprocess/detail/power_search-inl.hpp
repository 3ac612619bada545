// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include <raytrain/core/inline.hpp>
#include <raytrain/preprocess/column_statistics.hpp>
#include <raytrain/preprocess/detail/bounded_minimum.hpp>
#include <raytrain/preprocess/detail/power_functions.hpp>
#include <raytrain/preprocess/detail/power_search.hpp>

namespace raytrain::detail {

/// Of a logarithm times a power: the squares of what comes out are finite.
inline constexpr auto largest_log_of_power = 300.0;

RAYTRAIN_INLINE PowerSearch::PowerSearch(ValueRange const& logs, double mean, bool is_signed) noexcept
    : is_constant_{logs.min == logs.max},
      has_both_signs_{is_signed && logs.min < 0 && logs.max > 0},
      is_mirrored_{is_signed && logs.max <= 0},
      mean_{mean},
      search_{search_between(logs, mean, has_both_signs_)} {}

RAYTRAIN_INLINE auto PowerSearch::search_between(ValueRange const& logs, double mean, bool has_both_signs) noexcept
    -> BoundedMinimum {
  if (has_both_signs) {
    return {std::min(1.0, 2 + largest_log_of_power / logs.min), std::max(1.0, largest_log_of_power / logs.max)};
  }
  auto const reach = std::max(logs.max - mean, mean - logs.min);
  auto const highest = reach > 0 ? largest_log_of_power / reach : 1.0;
  return {-highest, highest};
}

RAYTRAIN_INLINE auto PowerSearch::tried(double log) const noexcept -> double {
  if (has_both_signs_) return power_of_signed_log(log, search_.point());
  return power_of_log(is_mirrored_ ? mean_ - log : log - mean_, search_.point());
}

RAYTRAIN_INLINE void PowerSearch::take(ValueMoments const& moments) noexcept {
  if (is_done()) return;
  auto const variance = moments.variance();
  auto const of_logs = has_both_signs_ ? 2 * (search_.point() - 1) * mean_ : 0;
  search_.take(variance > 0 ? std::log(variance) - of_logs : std::numeric_limits<double>::infinity());
}

RAYTRAIN_INLINE auto PowerSearch::best() const noexcept -> double {
  if (is_constant_) return 1;
  return is_mirrored_ ? 2 - search_.best() : search_.best();
}

}  // namespace raytrain::detail
