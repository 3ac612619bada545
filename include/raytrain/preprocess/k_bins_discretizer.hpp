// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <raytrain/data/dataset.hpp>
#include <raytrain/message/fields.hpp>
#include <raytrain/preprocess/detail/fitted_columns.hpp>
#include <raytrain/preprocess/fit_rows.hpp>

namespace raytrain {

/// How the range of a column is cut into bins.
enum class BinStrategy {
  uniform,   ///< Of equal width.
  quantile,  ///< Of equally many values, as far as their edges differ.
};

constexpr auto enum_names(BinStrategy /*any*/) noexcept {
  return std::array<std::string_view, 2>{"uniform", "quantile"};
}

/// Replaces numbers by the number of their bin, from 0; of rows with several values each place by itself.
///
/// A bin begins with its lower edge and ends before its upper one; values outside all bins go to the first or the last.
/// Quantiles that are equal are one edge, so that there may be fewer bins; a column whose values are all the same has
/// one. NaN stands for a missing value: it is not learnt from, and stays, which is why bins are numbered by floating
/// point: float64 of float64, float32 of any other type. Back, a bin becomes its centre.
struct KBinsDiscretizer {
  static constexpr std::string_view type_name = "KBinsDiscretizer";

  std::vector<std::string> columns{};  ///< At least one.
  int n_bins = 5;                      ///< From 2 to 65,536.
  BinStrategy strategy = BinStrategy::quantile;
  std::map<std::string, std::vector<double>> bins{};  ///< Of columns whose edges are given: ascending, two at least.
  std::map<std::string, std::vector<std::vector<double>>> edges{};  ///< Learnt, for each place of a column's rows.

  /// Errors: `invalid_config` for no column, one that is named twice, and settings out of their range; `invalid_data`
  ///         for a column without values; as `value_ranges` or `value_quantiles`.
  void fit(FitRows const& rows);
  [[nodiscard]] auto is_fitted() const -> bool { return detail::has_learnt(columns, edges); }
  /// Errors: `invalid_call` before `fit`; `not_found` and `invalid_data` for columns that are not as they were.
  [[nodiscard]] auto transform(Dataset const& dataset) const -> Dataset;
  /// Errors: also `invalid_data` for a number that no bin has.
  [[nodiscard]] auto inverse_transform(Dataset const& dataset) const -> Dataset;
  /// Errors: `invalid_data` for what no fit learns; called where JSON is read.
  void check_state() const;

  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(columns), CEREAL_NVP(n_bins), CEREAL_NVP(strategy), CEREAL_NVP(bins), CEREAL_NVP(edges));
  }
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/preprocess/k_bins_discretizer-inl.hpp>
#endif
