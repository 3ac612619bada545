// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <raytrain/data/dataset.hpp>
#include <raytrain/message/fields.hpp>
#include <raytrain/preprocess/column_statistics.hpp>
#include <raytrain/preprocess/detail/fitted_columns.hpp>
#include <raytrain/preprocess/detail/linear_scale.hpp>
#include <raytrain/preprocess/fit_rows.hpp>

namespace raytrain {

/// Brings columns of numbers to median 0 and a distance of 1 between two quantiles, which a few values far outside do
/// not change; of rows with several values each place by itself.
///
/// Quantiles are those of `value_quantiles`. A column that has both at one value is shifted alone. NaN stands for a
/// missing value: it is not learnt from, and stays. Of float64 it makes float64, of any other type float32.
struct RobustScaler {
  static constexpr std::string_view type_name = "RobustScaler";

  std::vector<std::string> columns{};     ///< At least one.
  ValueRange quantile_range{0.25, 0.75};  ///< From 0 to 1, `min` below `max`.
  detail::LinearScales scales{};          ///< Learnt, by the column's name.

  /// Errors: `invalid_config` for no column, one that is named twice, and a range out of its own; `invalid_data` for a
  ///         column without values; as `value_quantiles`.
  ///
  /// Cost: as `value_quantiles`, for each column.
  void fit(FitRows const& rows);
  [[nodiscard]] auto is_fitted() const -> bool { return detail::has_learnt(columns, scales); }
  /// Errors: `invalid_call` before `fit`; `not_found` and `invalid_data` for columns that are not as they were.
  [[nodiscard]] auto transform(Dataset const& dataset) const -> Dataset;
  [[nodiscard]] auto inverse_transform(Dataset const& dataset) const -> Dataset;
  /// Errors: `invalid_data` for what no fit learns; called where JSON is read.
  void check_state() const { detail::check_scales(scales, type_name); }

  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(columns), CEREAL_NVP(quantile_range), CEREAL_NVP(scales));
  }
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/preprocess/robust_scaler-inl.hpp>
#endif
