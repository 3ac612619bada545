// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <utility>

#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/preprocess/column_statistics.hpp>
#include <raytrain/preprocess/detail/linear_scale.hpp>
#include <raytrain/preprocess/fit_rows.hpp>
#include <raytrain/preprocess/preprocessor.hpp>
#include <raytrain/preprocess/standard_scaler.hpp>

namespace raytrain {

namespace detail {

/// Whether the differences can be what rounding makes of values that are all the same.
///
/// Source: T. F. Chan, G. H. Golub, R. J. LeVeque, "Algorithms for Computing the Sample Variance", The American
///         Statistician 37(3), 1983: the error of the two-pass algorithm.
[[nodiscard]] inline auto is_constant(ValueMoments const& moments) noexcept -> bool {
  constexpr auto epsilon = std::numeric_limits<double>::epsilon();
  auto const of_mean = static_cast<double>(moments.count) * moments.mean * epsilon;
  return moments.variance() <= static_cast<double>(moments.count) * epsilon * moments.variance() + of_mean * of_mean;
}

}  // namespace detail

RAYTRAIN_INLINE void StandardScaler::fit(FitRows const& rows) {
  detail::check_columns(columns, type_name);
  detail::LinearScales learnt;
  for (auto const& name : columns) {
    auto& scale = learnt[name];
    for (auto const& moments : value_moments(rows, name, "StandardScaler::fit")) {
      if (moments.count == 0) {
        throw Error{Errc::invalid_data, "StandardScaler::fit", fmt::format("column '{}' has no value", name),
                    "leave it out, or fill it before by SimpleImputer"};
      }
      scale.shift.push_back(moments.mean);
      scale.scale.push_back(detail::is_constant(moments) ? 1 : std::sqrt(moments.variance()));
    }
  }
  scales = std::move(learnt);
}

RAYTRAIN_INLINE auto StandardScaler::transform(Dataset const& dataset) const -> Dataset {
  detail::check_fitted(is_fitted(), type_name, "transform");
  return detail::scaled(dataset, scales, "StandardScaler::transform");
}

RAYTRAIN_INLINE auto StandardScaler::inverse_transform(Dataset const& dataset) const -> Dataset {
  detail::check_fitted(is_fitted(), type_name, "inverse_transform");
  return detail::unscaled(dataset, scales, "StandardScaler::inverse_transform");
}

}  // namespace raytrain
