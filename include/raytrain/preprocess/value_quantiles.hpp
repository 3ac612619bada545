// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <raytrain/preprocess/fit_rows.hpp>

namespace raytrain {

/// For each value of a row the quantiles `at`, each from 0 to 1: exact, and linear between two values. NaN where there
/// are no values. Learnt from all workers' rows, the same on each, and a group operation. `attempted` is who asks, for
/// errors: "RobustScaler::fit".
///
/// Errors: `not_found` for a column that is not there, listing those that are; `invalid_data` for one of text, and for
///         an infinite value, with its column.
/// Cost:   for each 64 quantiles three passes over the rows, or six where many values lie close to the quantiles, five
///         group operations, and up to 128 MiB, beside 10 bytes for each place and each beginning that values have.
/// Source: R. J. Hyndman, Y. Fan, "Sample quantiles in statistical packages", The American Statistician 50(4), 1996:
///         definition 7.
[[nodiscard]] auto value_quantiles(FitRows const& rows, std::string const& column, std::vector<double> const& at,
                                   std::string const& attempted) -> std::vector<std::vector<double>>;

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/preprocess/value_quantiles-inl.hpp>
#endif
