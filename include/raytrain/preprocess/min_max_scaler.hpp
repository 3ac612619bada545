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

/// Brings columns of numbers into a range: the smallest value that it has learnt from to its lower end, the largest to
/// its upper one; of rows with several values each place by itself.
///
/// Values outside those go outside the range. A column whose values are all the same becomes the lower end, as with
/// scikit-learn. NaN stands for a missing value: it is not learnt from, and stays. Of float64 it makes float64, of any
/// other type float32.
struct MinMaxScaler {
  static constexpr std::string_view type_name = "MinMaxScaler";

  std::vector<std::string> columns{};  ///< At least one.
  ValueRange feature_range{0, 1};      ///< What values become: finite, `min` below `max`.
  detail::LinearScales scales{};       ///< Learnt, by the column's name.

  /// Errors: `invalid_config` for no column, one that is named twice, and a range out of its own; `invalid_data` for a
  ///         column without values; as `value_ranges`.
  void fit(FitRows const& rows);
  [[nodiscard]] auto is_fitted() const -> bool { return detail::has_learnt(columns, scales); }
  /// Errors: `invalid_call` before `fit`; `not_found` and `invalid_data` for columns that are not as they were.
  [[nodiscard]] auto transform(Dataset const& dataset) const -> Dataset;
  [[nodiscard]] auto inverse_transform(Dataset const& dataset) const -> Dataset;
  /// Errors: `invalid_data` for what no fit learns; called where JSON is read.
  void check_state() const { detail::check_scales(scales, type_name); }

  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(columns), CEREAL_NVP(feature_range), CEREAL_NVP(scales));
  }
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/preprocess/min_max_scaler-inl.hpp>
#endif
