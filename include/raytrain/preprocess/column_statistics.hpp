// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include <raytrain/message/fields.hpp>
#include <raytrain/preprocess/fit_rows.hpp>

namespace raytrain {

/// Number, mean and squared differences of the values of a column that are not NaN; of rows with several values, of
/// those at one place in the row.
struct ValueMoments {
  std::uint64_t count = 0;
  double mean = 0;
  double squares = 0;  ///< Sum of the squared differences to the mean.

  /// Of the values themselves, no sample of more: by their number; NaN of none.
  [[nodiscard]] auto variance() const noexcept -> double {
    return count == 0 ? std::numeric_limits<double>::quiet_NaN() : squares / static_cast<double>(count);
  }
};

/// The smallest and the largest value that are not NaN; `min` is above `max` where there is none.
struct ValueRange {
  double min = std::numeric_limits<double>::infinity();
  double max = -std::numeric_limits<double>::infinity();

  [[nodiscard]] auto is_empty() const noexcept -> bool { return min > max; }
  void merge(ValueRange const& other) noexcept;

  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(min), CEREAL_NVP(max));
  }
};

/// The different values of a column, in ascending order, and how often each comes. Missing ones are left out.
struct ValueCounts {
  std::vector<std::string> texts{};  ///< Of a column of text; else empty.
  std::vector<double> numbers{};     ///< Of a column of numbers; else empty.
  std::vector<std::uint64_t> counts{};
};

/// What follows is learnt from all workers' rows, is the same on each, and is a group operation. `attempted` is who
/// asks, for errors: "StandardScaler::fit".
///
/// Errors of all: `not_found` for a column that is not there, listing those that are; `invalid_data` for one of text
/// where numbers are asked for, and for an infinite value, with its column.

/// Several columns are named at once where each block of rows is to be made once for all of them: see
/// `FitRows::through`.
template <class Statistic>
using ByColumn = std::map<std::string, std::vector<Statistic>>;

/// Returns the moments of a column: one for each place in a row.
///
/// Errors: also `invalid_data` for values whose sum or squares are beyond float64.
/// Source: T. F. Chan, G. H. Golub, R. J. LeVeque, "Algorithms for Computing the Sample Variance: Analysis and
///         Recommendations", The American Statistician 37(3), 1983: shifted data.
[[nodiscard]] auto value_moments(FitRows const& rows, std::string const& column, std::string const& attempted)
    -> std::vector<ValueMoments>;
[[nodiscard]] auto value_moments(FitRows const& rows, std::vector<std::string> const& columns,
                                 std::string const& attempted) -> ByColumn<ValueMoments>;

/// Returns the means, one for each place in a row; NaN where there is no value. Unlike in `value_moments` the squares
/// of the values may be beyond float64.
[[nodiscard]] auto value_means(FitRows const& rows, std::string const& column, std::string const& attempted)
    -> std::vector<double>;
[[nodiscard]] auto value_means(FitRows const& rows, std::vector<std::string> const& columns,
                               std::string const& attempted) -> ByColumn<double>;

/// Returns the smallest and the largest value for each place in a row.
[[nodiscard]] auto value_ranges(FitRows const& rows, std::string const& column, std::string const& attempted)
    -> std::vector<ValueRange>;
[[nodiscard]] auto value_ranges(FitRows const& rows, std::vector<std::string> const& columns,
                                std::string const& attempted) -> ByColumn<ValueRange>;

/// Returns the different values of a column that has one value a row, text or numbers, and how often each comes.
///
/// Errors: also `invalid_data` for a column of more values a row, and for more than 1,048,576 different ones, which are
///         no categories.
[[nodiscard]] auto value_counts(FitRows const& rows, std::string const& column, std::string const& attempted)
    -> ValueCounts;
[[nodiscard]] auto value_counts(FitRows const& rows, std::vector<std::string> const& columns,
                                std::string const& attempted) -> std::map<std::string, ValueCounts>;

namespace detail {

/// The column, which holds numbers. Errors: `not_found`; `invalid_data` for a column of text.
[[nodiscard]] auto numbers_of(Dataset const& rows, std::string const& column, std::string const& attempted)
    -> Column const&;

/// Errors: `invalid_data`, always: the column has an infinite value.
[[noreturn]] void refuse_infinity(std::string const& column, std::string const& attempted);

}  // namespace detail

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/preprocess/column_statistics-inl.hpp>
#endif
