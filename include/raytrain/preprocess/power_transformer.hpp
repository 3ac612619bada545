// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <raytrain/data/dataset.hpp>
#include <raytrain/message/fields.hpp>
#include <raytrain/preprocess/detail/fitted_columns.hpp>
#include <raytrain/preprocess/detail/linear_scale.hpp>
#include <raytrain/preprocess/fit_rows.hpp>

namespace raytrain {

enum class PowerMethod {
  yeo_johnson,  ///< Of any numbers.
  box_cox,      ///< Of numbers above 0.
};

constexpr auto enum_names(PowerMethod /*any*/) noexcept {
  return std::array<std::string_view, 2>{"yeo_johnson", "box_cox"};
}

/// Makes columns of numbers more like a normal distribution by a power of them; of rows with several values each place
/// by itself.
///
/// The power is given, or that of the largest likelihood; it is 1 for values that are all the same. NaN stands for a
/// missing value: it is not learnt from, and stays. Of float64 it makes float64, of any other type float32.
/// Source: G. E. P. Box, D. R. Cox, "An Analysis of Transformations", Journal of the Royal Statistical Society B 26(2),
///         1964; I.-K. Yeo, R. A. Johnson, "A new family of power transformations to improve normality or symmetry",
///         Biometrika 87(4), 2000.
struct PowerTransformer {
  static constexpr std::string_view type_name = "PowerTransformer";

  std::vector<std::string> columns{};  ///< At least one.
  PowerMethod method = PowerMethod::yeo_johnson;
  std::optional<double> power{};                        ///< Lambda, of all columns; none: it is learnt.
  bool standardize = true;                              ///< To mean 0 and standard deviation 1 afterwards.
  std::map<std::string, std::vector<double>> powers{};  ///< Learnt, for each place of a column's rows.
  detail::LinearScales scales{};  ///< Learnt, of what the power makes: 0 and 1 unless `standardize`.

  /// Errors: `invalid_config` for no column, one that is named twice, and a power that is not finite; `invalid_data`
  ///         for a column without values, by `box_cox` for one with values of 0 or below, and for a given power that
  ///         makes numbers beyond float64; as `value_ranges`, and as `value_moments` where `standardize` needs them.
  /// Cost:   some 20 to 40 passes over each column and as many group operations, where the power is learnt; its
  ///         logarithms are kept meanwhile, as float64.
  void fit(FitRows const& rows);
  [[nodiscard]] auto is_fitted() const -> bool { return detail::has_learnt(columns, scales); }
  /// Errors: `invalid_call` before `fit`; `not_found` and `invalid_data` for columns that are not as they were, by
  ///         `box_cox` also for values of 0 or below; `invalid_data` also for a finite value of which the power makes a
  ///         number beyond the floats that come.
  [[nodiscard]] auto transform(Dataset const& dataset) const -> Dataset;
  /// A number that the power makes of none becomes NaN.
  [[nodiscard]] auto inverse_transform(Dataset const& dataset) const -> Dataset;
  /// Errors: `invalid_data` for what no fit learns; called where JSON is read.
  void check_state() const;

  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(columns), CEREAL_NVP(method), CEREAL_NVP(power), CEREAL_NVP(standardize), CEREAL_NVP(powers),
      CEREAL_NVP(scales));
  }
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/preprocess/power_transformer-inl.hpp>
#endif
