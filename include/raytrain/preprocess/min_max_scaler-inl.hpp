// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/preprocess/column_statistics.hpp>
#include <raytrain/preprocess/detail/linear_scale.hpp>
#include <raytrain/preprocess/fit_rows.hpp>
#include <raytrain/preprocess/min_max_scaler.hpp>
#include <raytrain/preprocess/preprocessor.hpp>

namespace raytrain {

RAYTRAIN_INLINE void MinMaxScaler::fit(FitRows const& rows) {
  if (!std::isfinite(feature_range.max - feature_range.min) || feature_range.min >= feature_range.max) {
    throw Error{
        Errc::invalid_config, "MinMaxScaler::feature_range",
        fmt::format("must go from one number to a larger one (got {} to {})", feature_range.min, feature_range.max),
        "write .feature_range = {0, 1}"};
  }
  detail::check_columns(columns, type_name);
  auto const found = value_ranges(rows, columns, "MinMaxScaler::fit");
  scales = detail::learn_scales(
      columns, type_name, [&](auto const& name) -> auto const& { return found.at(name); },
      [&](ValueRange const& range) -> std::optional<std::pair<double, double>> {
        if (range.is_empty()) return std::nullopt;
        auto const width = feature_range.max - feature_range.min;
        auto scale = (range.max - range.min) / width;
        // Of one value, and of those too near for a scale: the shift must differ from large values.
        if (scale == 0) scale = std::max(1.0, std::ldexp(std::abs(range.min), -20)) / width;
        return std::pair{range.min - feature_range.min * scale, scale};
      });
}

RAYTRAIN_INLINE auto MinMaxScaler::transform(Dataset const& dataset) const -> Dataset {
  detail::check_fitted(is_fitted(), type_name, "transform");
  return detail::scaled(dataset, columns, scales, "MinMaxScaler::transform");
}

RAYTRAIN_INLINE auto MinMaxScaler::inverse_transform(Dataset const& dataset) const -> Dataset {
  detail::check_fitted(is_fitted(), type_name, "inverse_transform");
  return detail::unscaled(dataset, columns, scales, "MinMaxScaler::inverse_transform");
}

}  // namespace raytrain
