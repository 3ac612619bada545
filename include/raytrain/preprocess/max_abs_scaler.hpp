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

/// Divides columns of numbers by their largest absolute value, so that 0 stays 0; of rows with several values each
/// place by itself.
///
/// A column of nothing but 0 stays. NaN stands for a missing value: it is not learnt from, and stays. Of float64 it
/// makes float64, of any other type float32.
struct MaxAbsScaler {
  static constexpr std::string_view type_name = "MaxAbsScaler";

  std::vector<std::string> columns{};  ///< At least one.
  detail::LinearScales scales{};       ///< Learnt, by the column's name: shifts are 0.

  /// Errors: `invalid_config` for no column, or one that is named twice; `invalid_data` for one without values; as
  ///         `value_ranges`.
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
#include <raytrain/preprocess/max_abs_scaler-inl.hpp>
#endif
