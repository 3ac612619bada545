// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <raytrain/data/dataset.hpp>
#include <raytrain/message/fields.hpp>
#include <raytrain/preprocess/detail/fitted_columns.hpp>
#include <raytrain/preprocess/detail/linear_scale.hpp>
#include <raytrain/preprocess/fit_rows.hpp>

namespace raytrain {

/// Brings columns of numbers to mean 0 and standard deviation 1; of rows with several values each place by itself.
///
/// The deviation is that of the rows themselves, as scikit-learn and Ray take it. A column whose values are all the
/// same becomes 0, also where they differ by rounding: the deviation is then below 9e-16 of the mean. scikit-learn
/// takes more columns for such ones, the more rows there are. NaN stands for a missing value: it is not learnt from,
/// and stays. Of float64 it makes float64, of any other type float32.
struct StandardScaler {
  static constexpr std::string_view type_name = "StandardScaler";

  std::vector<std::string> columns{};  ///< At least one.
  detail::LinearScales scales{};       ///< Learnt: mean and standard deviation, by the column's name.

  /// Errors: `invalid_config` for no column, or one that is named twice; `invalid_data` for one without values; as
  ///         `value_moments`.
  void fit(FitRows const& rows);
  [[nodiscard]] auto is_fitted() const -> bool { return detail::has_learnt(columns, scales); }
  /// Errors: `invalid_call` before `fit`; `not_found` and `invalid_data` for columns that are not as they were.
  [[nodiscard]] auto transform(Dataset const& dataset) const -> Dataset;
  [[nodiscard]] auto inverse_transform(Dataset const& dataset) const -> Dataset;
  /// Errors: `invalid_data` for what no fit learns; called where JSON is read.
  void check_state() const { detail::check_scales(scales, type_name); }

  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(columns), CEREAL_NVP(scales));
  }
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/preprocess/standard_scaler-inl.hpp>
#endif
