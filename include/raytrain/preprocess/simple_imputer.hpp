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
#include <raytrain/preprocess/fit_rows.hpp>

namespace raytrain {

/// What takes the place of a missing value.
enum class ImputeStrategy {
  mean,           ///< Of columns of numbers.
  median,         ///< Of columns of numbers.
  most_frequent,  ///< The smallest of those that come most often.
  constant,       ///< One that is given.
};

constexpr auto enum_names(ImputeStrategy /*any*/) noexcept {
  return std::array<std::string_view, 4>{"mean", "median", "most_frequent", "constant"};
}

namespace detail {

/// What takes the place of missing values of a column: for each place of its rows a number, or a text.
struct ColumnFill {
  std::vector<double> numbers{};
  std::optional<std::string> text{};

  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(numbers), CEREAL_NVP(text));
  }
};

}  // namespace detail

/// Fills missing values of columns, which are NaN or no text; of rows with several values each place by itself.
///
/// A column of integers has none and passes unchanged. Of float64 it makes float64, of any other floating point
/// float32. What has been filled is not known afterwards, so that there is no way back.
struct SimpleImputer {
  static constexpr std::string_view type_name = "SimpleImputer";

  std::vector<std::string> columns{};  ///< At least one.
  ImputeStrategy strategy = ImputeStrategy::mean;
  std::optional<double> fill_value{};                 ///< Of columns of numbers, finite; by `constant` alone.
  std::optional<std::string> fill_text{};             ///< Of columns of text; by `constant` alone.
  std::map<std::string, detail::ColumnFill> fills{};  ///< Learnt, by the column's name.

  /// Errors: `invalid_config` for no column, one that is named twice, a column that the strategy does not fill, and a
  ///         constant that is missing or that no strategy takes; `invalid_data` for a column without a value, unless by
  ///         `constant`; as `value_means`, `value_quantiles` or `value_counts`.
  void fit(FitRows const& rows);
  [[nodiscard]] auto is_fitted() const -> bool { return detail::has_learnt(columns, fills); }
  /// Errors: `invalid_call` before `fit`; `not_found` and `invalid_data` for columns that are not as they were.
  [[nodiscard]] auto transform(Dataset const& dataset) const -> Dataset;
  /// Errors: `invalid_data` for what no fit learns; called where JSON is read.
  void check_state() const;

  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(columns), CEREAL_NVP(strategy), CEREAL_NVP(fill_value), CEREAL_NVP(fill_text), CEREAL_NVP(fills));
  }
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/preprocess/simple_imputer-inl.hpp>
#endif
