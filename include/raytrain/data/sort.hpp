// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <string>
#include <vector>

#include <raytrain/data/dataset.hpp>

namespace raytrain {

/// In which order `sort` puts rows.
struct SortOptions {
  bool descending = false;  ///< True: the largest first, of every column; NaN are last in either case.
};

/// A copy of the rows in the order of their values in the first of `columns`, rows of one value there in that of the
/// second, and so on: `sort(people, {"city", "age"})`. Those of equal values stay in the order in which they lie.
///
/// Errors: `not_found` when there is no such column, listing those that there are; `invalid_data` when it has more than
///         one value a row; `invalid_call` for no column, and for one that is named twice.
[[nodiscard]] auto sort(Dataset const& dataset, std::vector<std::string> const& columns,
                        SortOptions const& options = {}) -> Dataset;

/// By one column: `sort(people, "age", {.descending = true})`.
template <std::convertible_to<std::string> Name>
[[nodiscard]] auto sort(Dataset const& dataset, Name const& column, SortOptions const& options = {}) -> Dataset {
  return sort(dataset, std::vector<std::string>{column}, options);
}

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/data/sort-inl.hpp>
#endif
