// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/preprocess/detail/linear_scale.hpp>
#include <raytrain/preprocess/fit_rows.hpp>
#include <raytrain/preprocess/preprocessor.hpp>
#include <raytrain/preprocess/robust_scaler.hpp>
#include <raytrain/preprocess/value_quantiles.hpp>

namespace raytrain {

RAYTRAIN_INLINE void RobustScaler::fit(FitRows const& rows) {
  if (!(quantile_range.min >= 0 && quantile_range.min < quantile_range.max && quantile_range.max <= 1)) {
    throw Error{Errc::invalid_config, "RobustScaler::quantile_range",
                fmt::format("must go from one number to a larger one, both from 0 to 1 (got {} to {})",
                            quantile_range.min, quantile_range.max),
                "write .quantile_range = {0.25, 0.75}"};
  }
  scales = detail::learn_scales(
      columns, type_name,
      [&](auto const& name) {
        return value_quantiles(rows, name, {quantile_range.min, 0.5, quantile_range.max}, "RobustScaler::fit");
      },
      [](std::vector<double> const& quantiles) -> std::optional<std::pair<double, double>> {
        if (std::isnan(quantiles[1])) return std::nullopt;
        auto const distance = quantiles[2] - quantiles[0];
        return std::pair{quantiles[1], distance == 0 ? 1 : distance};
      });
}

RAYTRAIN_INLINE auto RobustScaler::transform(Dataset const& dataset) const -> Dataset {
  detail::check_fitted(is_fitted(), type_name, "transform");
  return detail::scaled(dataset, columns, scales, "RobustScaler::transform");
}

RAYTRAIN_INLINE auto RobustScaler::inverse_transform(Dataset const& dataset) const -> Dataset {
  detail::check_fitted(is_fitted(), type_name, "inverse_transform");
  return detail::unscaled(dataset, columns, scales, "RobustScaler::inverse_transform");
}

}  // namespace raytrain
