// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <raytrain/preprocess/fit_rows.hpp>

namespace raytrain {

/// For each value of a row the quantiles `at`, each from 0 to 1: exact, and linear between two values. NaN where there
/// are no values. Learnt from all workers' rows, the same on each, and a group operation. `attempted` is who asks, for
/// errors: "RobustScaler::fit".
///
/// Errors: `invalid_call` for a quantile that is not from 0 to 1; `not_found` for a column that is not there, listing
///         those that are; `invalid_data` for one of text, and for an infinite value, with its column.
/// Cost:   for each 64 quantiles two reads of each value, or five where more than 8 Mi values, of all places together,
///         share their leading 16 bits with a quantile; four group operations, and up to 128 MiB. Besides, 10 bytes for
///         each worker, place and 16 bits that values have behind bits that are looked for.
/// Source: R. J. Hyndman, Y. Fan, "Sample quantiles in statistical packages", The American Statistician 50(4), 1996:
///         definition 7.
[[nodiscard]] auto value_quantiles(FitRows const& rows, std::string const& column, std::vector<double> const& at,
                                   std::string const& attempted) -> std::vector<std::vector<double>>;

namespace detail {

/// Values that a worker keeps at most, of all places together: 64 MiB.
inline constexpr std::size_t most_kept_values = std::size_t{8} << 20U;

/// As `value_quantiles`, of up to 64. Where more values than `most_kept` are to be kept, it reads the rows again.
[[nodiscard]] auto find_quantiles(FitRows const& rows, std::string const& column, std::vector<double> const& at,
                                  std::string const& attempted, std::size_t most_kept = most_kept_values)
    -> std::vector<std::vector<double>>;

}  // namespace detail

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/preprocess/value_quantiles-inl.hpp>
#endif
