// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <raytrain/core/inline.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/preprocess/column_statistics.hpp>
#include <raytrain/preprocess/detail/linear_scale.hpp>
#include <raytrain/preprocess/detail/standard_scale.hpp>
#include <raytrain/preprocess/fit_rows.hpp>
#include <raytrain/preprocess/preprocessor.hpp>
#include <raytrain/preprocess/standard_scaler.hpp>

namespace raytrain {

RAYTRAIN_INLINE void StandardScaler::fit(FitRows const& rows) {
  detail::check_columns(columns, type_name);
  auto const found = value_moments(rows, columns, "StandardScaler::fit");
  scales = detail::learn_scales(
      columns, type_name, [&](auto const& name) -> auto const& { return found.at(name); }, detail::standard_scale);
}

RAYTRAIN_INLINE auto StandardScaler::transform(Dataset const& dataset) const -> Dataset {
  detail::check_fitted(is_fitted(), type_name, "transform");
  return detail::scaled(dataset, columns, scales, "StandardScaler::transform");
}

RAYTRAIN_INLINE auto StandardScaler::inverse_transform(Dataset const& dataset) const -> Dataset {
  detail::check_fitted(is_fitted(), type_name, "inverse_transform");
  return detail::unscaled(dataset, columns, scales, "StandardScaler::inverse_transform");
}

}  // namespace raytrain
