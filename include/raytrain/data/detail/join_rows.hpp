// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

namespace raytrain {
class Column;
class Dataset;
}  // namespace raytrain

namespace raytrain::detail {

/// The columns, and no memory of the rows.
[[nodiscard]] auto without_rows(Dataset const& dataset) -> Dataset;

/// What `part` has otherwise than `first`, one text for each column that differs; their order is free.
[[nodiscard]] auto column_differences(Dataset const& first, Dataset const& part) -> std::vector<std::string>;

/// The columns of `part`, whatever their order, in that of `first`. Both have the same ones.
[[nodiscard]] auto columns_as_in(Dataset const& first, Dataset const& part) -> std::vector<Column const*>;

/// The rows of all parts, one part after the other, in the first one's order of columns. A part that has neither
/// columns nor rows adds nothing. `names` are the parts' in errors, "part 1" and so on where there are none.
///
/// Errors: `invalid_data`, with `attempted`, for a part whose columns have other names, types or row shapes than the
///         first one's, listing what differs.
[[nodiscard]] auto join_rows(std::span<Dataset const> parts, std::string const& attempted,
                             std::span<std::string const> names = {}) -> Dataset;

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/data/detail/join_rows-inl.hpp>
#endif
