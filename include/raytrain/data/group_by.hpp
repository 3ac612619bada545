// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/detail/order_keys.hpp>

namespace raytrain {

/// What is made of the values of a group, without those that are missing: NaN are, and texts may be. Of texts there are
/// `count`, `unique`, `min` and `max` alone.
enum class Aggregate : std::uint8_t {
  count,     ///< int64. Without a column: the group's rows.
  sum,       ///< int64 of integers, float64 of others; 0 of none.
  mean,      ///< float64; NaN of none.
  min,       ///< Of the column's type; NaN of none. Of texts, in the order of the column's categories; no text of none.
  max,       ///< As `min`.
  std,       ///< float64: the standard deviation of a sample; NaN of fewer than two.
  quantile,  ///< float64: below it lies the part `Aggregation::quantile` of the values, as of NumPy's; NaN of none.
  unique,    ///< int64: how many different values there are. Ray's `Unique` lists them.
  abs_max,   ///< The largest absolute value: int64 of integers, float64 of others; NaN of none.
};

/// A column of a table of groups: `{Aggregate::mean, "age"}`.
struct Aggregation {
  Aggregate what = Aggregate::count;
  std::string column{};   ///< Of one number a row; empty for `Aggregate::count` alone.
  std::string name{};     ///< Of the result; empty: "mean(age)".
  double quantile = 0.5;  ///< Of `Aggregate::quantile` alone: from 0 to 1, 0.5 for the median.
};

/// Rows of a dataset by their values in some columns, as `group_by` returns them.
///
/// Threads: every function from any thread.
class GroupedDataset {
 public:
  /// A row for each group, with its values and these columns, in ascending order of the values, the first column's
  /// first; those that are NaN are one, the last one.
  ///
  /// Errors: `not_found` and `invalid_data` for a column that is not there, has more than one value a row, or whose sum
  ///         or absolute value is no int64, and for what there is not of texts; `invalid_call` for no aggregation, one
  ///         that lacks its column, a quantile that is not from 0 to 1, and two of one name.
  /// Source: of mean and std, B. P. Welford, "Note on a method for calculating corrected sums of squares and products",
  ///         Technometrics 4(3), 1962.
  [[nodiscard]] auto aggregate(std::vector<Aggregation> const& aggregations) const -> Dataset;

 private:
  friend auto group_by(Dataset dataset, std::vector<std::string> const& columns) -> GroupedDataset;

  GroupedDataset(Dataset dataset, std::vector<Column> keys, detail::RowGroups groups)
      : dataset_{std::move(dataset)}, keys_{std::move(keys)}, groups_{std::move(groups)} {}

  Dataset dataset_;
  std::vector<Column> keys_;
  detail::RowGroups groups_;
};

/// Groups of rows whose values are the same in each of `columns`:
/// `group_by(data, {"city", "label"}).aggregate({{Aggregate::count}, {Aggregate::mean, "age"}})`.
///
/// Errors: `not_found` when there is no such column, listing those that there are; `invalid_data` when it has more than
///         one value a row; `invalid_call` for no column, and for one that is named twice.
[[nodiscard]] auto group_by(Dataset dataset, std::vector<std::string> const& columns) -> GroupedDataset;

/// By one column: `group_by(data, "label")`.
template <std::convertible_to<std::string> Name>
[[nodiscard]] auto group_by(Dataset dataset, Name const& column) -> GroupedDataset {
  return group_by(std::move(dataset), std::vector<std::string>{column});
}

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/data/group_by-inl.hpp>
#endif
