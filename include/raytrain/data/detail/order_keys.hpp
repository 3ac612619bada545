// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>

namespace raytrain::detail {

/// A number for each row of a column of one value a row: it is smaller where the value is, and larger instead where
/// that is `descending`. Equal values have equal ones, as 0 and -0 do; all NaN, and all texts that are missing,
/// have the largest. Texts are in the order of their categories.
[[nodiscard]] auto order_keys(Column const& column, bool descending = false) -> std::vector<std::uint64_t>;

/// The same of the rows' values in several columns, of which the first counts most: by their ranks, from 0.
[[nodiscard]] auto order_keys(std::span<Column const> columns, bool descending = false) -> std::vector<std::uint64_t>;

/// These columns, each of one value a row, of which there is at least one and none twice.
///
/// Errors: `invalid_call`, `not_found` and `invalid_data` where they are not; `attempted` begins the message.
[[nodiscard]] auto key_columns(Dataset const& dataset, std::vector<std::string> const& names,
                               std::string const& attempted) -> std::vector<Column>;

/// Numbers of the rows in ascending order of their keys; those of one key as they lie.
[[nodiscard]] auto rows_by_key(std::vector<std::uint64_t> const& keys) -> std::vector<std::uint64_t>;

/// Rows whose values in some columns are equal.
struct RowGroups {
  std::vector<std::uint64_t> rows;  ///< Of one group after the other, each in the order in which they lie.
  std::vector<std::size_t> begins;  ///< Where each group begins in `rows`; behind them, where the last one ends.

  [[nodiscard]] auto size() const noexcept -> std::size_t { return begins.size() - 1; }
  [[nodiscard]] auto rows_of(std::size_t group) const noexcept -> std::size_t {
    return begins[group + 1] - begins[group];
  }

  /// Which group each row is in.
  [[nodiscard]] auto of_rows() const -> std::vector<std::size_t>;
};

/// In ascending order of their values, all NaN or missing texts as one group at the end.
[[nodiscard]] auto row_groups(std::span<Column const> columns) -> RowGroups;

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/data/detail/order_keys-inl.hpp>
#endif
