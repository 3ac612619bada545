// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include <raytrain/core/inline.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/preprocess/column_statistics.hpp>
#include <raytrain/preprocess/detail/linear_scale.hpp>
#include <raytrain/preprocess/fit_rows.hpp>
#include <raytrain/preprocess/max_abs_scaler.hpp>
#include <raytrain/preprocess/preprocessor.hpp>

namespace raytrain {

RAYTRAIN_INLINE void MaxAbsScaler::fit(FitRows const& rows) {
  detail::check_columns(columns, type_name);
  auto const found = value_ranges(rows, columns, "MaxAbsScaler::fit");
  scales = detail::learn_scales(
      columns, type_name, [&](auto const& name) -> auto const& { return found.at(name); },
      [](ValueRange const& range) -> std::optional<std::pair<double, double>> {
        if (range.is_empty()) return std::nullopt;
        auto const largest = std::max(std::abs(range.min), std::abs(range.max));
        return std::pair{0.0, largest == 0 ? 1 : largest};
      });
}

RAYTRAIN_INLINE auto MaxAbsScaler::transform(Dataset const& dataset) const -> Dataset {
  detail::check_fitted(is_fitted(), type_name, "transform");
  return detail::scaled(dataset, columns, scales, "MaxAbsScaler::transform");
}

RAYTRAIN_INLINE auto MaxAbsScaler::inverse_transform(Dataset const& dataset) const -> Dataset {
  detail::check_fitted(is_fitted(), type_name, "inverse_transform");
  return detail::unscaled(dataset, columns, scales, "MaxAbsScaler::inverse_transform");
}

}  // namespace raytrain
