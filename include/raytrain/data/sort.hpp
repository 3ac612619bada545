// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <raytrain/data/dataset.hpp>

namespace raytrain {

/// In which order `sort` puts rows.
struct SortOptions {
  bool descending = false;  ///< True: the largest first; NaN are last in either case.
};

/// A copy of the rows in the order of their numbers in `column`; equal ones stay in the order in which they lie.
///
/// Errors: `not_found` when there is no such column, listing those that there are; `invalid_data` when it has more than
///         one value a row.
[[nodiscard]] auto sort(Dataset const& dataset, std::string const& column, SortOptions const& options = {}) -> Dataset;

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/data/sort-inl.hpp>
#endif
