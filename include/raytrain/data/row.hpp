// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include <raytrain/core/element_type.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>

namespace raytrain {

/// One row of a dataset. Owns nothing: it is good for as long as the dataset.
///
/// Threads: every function from any thread.
class Row {
 public:
  /// `index` is below `dataset.rows()`.
  Row(Dataset const& dataset, std::size_t index) noexcept : columns_{dataset.columns()}, index_{index} {}

  /// Counted from 0, in the dataset.
  [[nodiscard]] auto index() const noexcept -> std::size_t { return index_; }

  /// The row's one value in that column: `row.get<float>("age")`.
  ///
  /// Errors: `not_found` when there is no such column, listing those that there are; `invalid_data` when it holds
  ///         another type, or more than one value a row.
  template <Element T>
  [[nodiscard]] auto get(std::string_view column) const -> T {
    auto const& source = find_column(columns_, column);
    auto const values = source.as<T>();
    source.check_one_value_a_row("Row::get");
    return values[index_];
  }

  /// The row's text in that column, or none where it is missing.
  ///
  /// Errors: `not_found` as of `get`; `invalid_data` when the column holds numbers.
  [[nodiscard]] auto text(std::string_view column) const -> std::optional<std::string_view> {
    return find_column(columns_, column).text(index_);
  }

  /// All of the row's values in that column, as the pixels of an image.
  ///
  /// Errors: as of `get`, but for any number of values.
  template <Element T>
  [[nodiscard]] auto values(std::string_view column) const -> std::span<T const> {
    auto const& source = find_column(columns_, column);
    return source.as<T>().subspan(index_ * source.row_values(), source.row_values());
  }

 private:
  std::span<Column const> columns_;
  std::size_t index_;
};

}  // namespace raytrain
