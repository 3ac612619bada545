// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <raytrain/core/element_type.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/data/column.hpp>

namespace raytrain {

RAYTRAIN_INLINE Column::Column(ColumnFormat format, std::shared_ptr<std::byte const> first, std::size_t rows)
    : format_{std::move(format)}, rows_{rows}, data_{std::move(first)} {
  if (format_.name.empty()) {
    throw Error{Errc::invalid_data, "column", "its name is empty", "name it, for instance \"label\""};
  }
  for (auto const extent : format_.row_shape) {
    if (extent == 0 || row_values_ > std::numeric_limits<std::size_t>::max() / 8 / extent) {
      throw Error{Errc::invalid_data, "column '" + format_.name + "'",
                  "no row can have the shape " + shape_text() + (extent == 0 ? ": it is empty" : ": it is too large"),
                  "write {} for one value per row"};
    }
    row_values_ *= extent;
  }
}

RAYTRAIN_INLINE void Column::check_type(ElementType wanted) const {
  if (wanted == format_.type) return;
  throw Error{Errc::invalid_data, fmt::format("column '{}' as {}", format_.name, to_string(wanted)),
              fmt::format("it holds {} of row shape {}", to_string(format_.type), shape_text()),
              fmt::format("ask for {}, or convert it before it goes into the dataset", to_string(format_.type))};
}

RAYTRAIN_INLINE void Column::check_one_value_a_row(std::string const& attempted) const {
  if (row_values_ == 1) return;
  throw Error{Errc::invalid_data, attempted,
              fmt::format("column '{}' has rows of shape {}, and not of one number", name(), shape_text()),
              "take a column of one number a row"};
}

RAYTRAIN_INLINE auto Column::named(std::string name) const -> Column {
  return {ColumnFormat{std::move(name), format_.type, format_.row_shape}, data_, rows_};
}

RAYTRAIN_INLINE auto Column::slice(std::size_t first, std::size_t last) const -> Column {
  auto part = *this;
  part.rows_ = last - first;
  part.data_ = {data_, data_.get() + first * row_bytes()};
  return part;
}

RAYTRAIN_INLINE auto Column::describe() const -> std::string {
  return fmt::format("{} ({}, {})", format_.name, to_string(format_.type), shape_text());
}

RAYTRAIN_INLINE auto Column::shape_text() const -> std::string {
  return format_.row_shape.empty() ? "scalar" : fmt::format("{}", fmt::join(format_.row_shape, " x "));
}

RAYTRAIN_INLINE auto find_column(std::span<Column const> columns, std::string_view name) -> Column const& {
  auto const found = std::ranges::find(columns, name, &Column::name);
  if (found != columns.end()) return *found;
  std::string present;
  for (auto const& column : columns) present += (present.empty() ? "" : ", ") + column.describe();
  throw Error{Errc::not_found, fmt::format("column '{}'", name),
              "is not in the dataset, which has " + (present.empty() ? "none" : present), "name one of them"};
}

}  // namespace raytrain
