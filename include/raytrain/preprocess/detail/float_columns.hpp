// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <raytrain/core/element_type.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>

namespace raytrain::detail {

/// A column of `row_shape` whose values `fill(from, to)` makes of this one's: float64 of float64, and float32 of any
/// other numbers.
template <class Fill>
[[nodiscard]] auto floats_of(Column const& column, RowShape row_shape, Fill const& fill) -> Column {
  auto const made = [&]<class To>(To /*zero*/) {
    std::size_t row_values = 1;
    for (auto const extent : row_shape) row_values *= extent;
    std::vector<To> values(column.rows() * row_values);
    column.visit([&]<Element From>(std::span<From const> from) { fill(from, std::span{values}); });
    return Column{column.name(), std::move(values), std::move(row_shape)};
  };
  return column.type() == ElementType::float64 ? made(double{}) : made(float{});
}

/// The column has as many values a row as `width`. Errors: `invalid_data`.
void check_row_values(Column const& column, std::size_t width, std::string const& attempted);

/// The dataset with floats in the place of a column of numbers, `change(value, place)` of each value, where `place` is
/// that in its row.
///
/// Errors: `not_found` for a column that is not there; `invalid_data` for one of text, and of another number of values
///         a row than `width`.
template <class Change>
[[nodiscard]] auto with_changed_values(Dataset const& dataset, std::string const& name, std::size_t width,
                                       std::string const& attempted, Change const& change) -> Dataset {
  auto const& column = dataset.column(name);
  column.check_holds_numbers(attempted);
  check_row_values(column, width, attempted);
  return dataset.with_column(
      floats_of(column, column.row_shape(), [&]<class From, class To>(std::span<From> from, std::span<To> to) {
        for (std::size_t row = 0; row < from.size(); row += width) {
          for (std::size_t place = 0; place < width; ++place) {
            to[row + place] = static_cast<To>(change(as_double(from[row + place]), place));
          }
        }
      }));
}

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/preprocess/detail/float_columns-inl.hpp>
#endif
