// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <raytrain/data/dataset.hpp>

namespace raytrain {

/// What the values of a column are like, without those that are NaN, which stand for missing ones. Of a column of text
/// they are counted, and the rest is NaN.
struct ColumnSummary {
  std::string column{};
  std::uint64_t count = 0;  ///< Values; of rows with several all of them. All that follows is NaN where it is 0.
  double mean = std::numeric_limits<double>::quiet_NaN();
  /// Standard deviation of a sample; NaN of fewer than two values.
  double std = std::numeric_limits<double>::quiet_NaN();
  double min = std::numeric_limits<double>::quiet_NaN();
  double lower_quartile = std::numeric_limits<double>::quiet_NaN();  ///< A quarter of the values lies below.
  double median = std::numeric_limits<double>::quiet_NaN();
  double upper_quartile = std::numeric_limits<double>::quiet_NaN();
  double max = std::numeric_limits<double>::quiet_NaN();
};

/// One summary for each column.
///
/// Cost: a copy of the values as `double`, column by column.
/// Source: R. J. Hyndman, Y. Fan, "Sample quantiles in statistical packages", The American Statistician 50(4), 1996:
///         definition 7, which is linear between the two nearest values.
[[nodiscard]] auto describe(Dataset const& dataset) -> std::vector<ColumnSummary>;

/// A table with a line for each column.
[[nodiscard]] auto to_string(std::span<ColumnSummary const> summaries) -> std::string;

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/data/describe-inl.hpp>
#endif
