// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <raytrain/core/element_type.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/detail/text_codes.hpp>

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
  if (format_.is_boolean && (format_.type != ElementType::uint8 || is_text())) {
    throw Error{Errc::invalid_data, "column '" + format_.name + "'",
                fmt::format("it is said to be boolean, and holds {}", is_text() ? "text" : to_string(format_.type)),
                "give booleans as uint8, 1 and 0, or make them by Column::of_booleans"};
  }
}

RAYTRAIN_INLINE auto Column::of_texts(std::string name, std::vector<std::optional<std::string>> const& texts)
    -> Column {
  detail::TextCodes codes;
  for (auto const& text : texts) codes.add(text);
  return std::move(codes).take(std::move(name));
}

RAYTRAIN_INLINE auto Column::of_booleans(std::string name, std::vector<bool> const& values, RowShape row_shape)
    -> Column {
  Column column{std::move(name), std::vector<std::uint8_t>(values.begin(), values.end()), std::move(row_shape)};
  column.format_.is_boolean = true;
  return column;
}

RAYTRAIN_INLINE auto Column::type_name() const noexcept -> std::string_view {
  if (is_text()) return "text";
  return is_boolean() ? "bool" : to_string(type());
}

RAYTRAIN_INLINE auto Column::categories() const -> std::span<std::string const> {
  if (is_text()) return *format_.categories;
  throw Error{Errc::invalid_data, fmt::format("the categories of column '{}'", name()),
              fmt::format("it holds {} and no text", type_name()), "read its numbers by Column::as"};
}

RAYTRAIN_INLINE auto Column::text(std::size_t row) const -> std::optional<std::string_view> {
  auto const texts = categories();
  auto const code = as<std::int32_t>()[row];
  if (code < 0) return std::nullopt;
  return texts[static_cast<std::size_t>(code)];
}

RAYTRAIN_INLINE void Column::check_holds_numbers(std::string const& attempted) const {
  if (!is_text()) return;
  throw Error{Errc::invalid_data, attempted, fmt::format("column '{}' holds text and no numbers", name()),
              "leave it out, or make numbers of it: Column::as<std::int32_t>() are its codes"};
}

RAYTRAIN_INLINE void Column::check_booleans(std::string const& attempted) const {
  if (!is_boolean()) return;
  auto const values = as<std::uint8_t>();
  auto const wrong = std::ranges::find_if(values, [](std::uint8_t value) { return value > 1; });
  if (wrong == values.end()) return;
  auto const row = static_cast<std::size_t>(wrong - values.begin()) / row_values_;
  throw Error{Errc::invalid_data, attempted,
              fmt::format("column '{}' is boolean, and has the value {} in row {}", name(), *wrong, row),
              "make it 1 for true, or take the column as numbers by Column::booleans_as_numbers"};
}

RAYTRAIN_INLINE void Column::check_type(ElementType wanted) const {
  if (wanted == format_.type) return;
  throw Error{Errc::invalid_data, fmt::format("column '{}' as {}", format_.name, to_string(wanted)),
              is_text() ? "it holds text, whose codes are int32"
                        : fmt::format("it holds {} of row shape {}", to_string(format_.type), shape_text()),
              fmt::format("ask for {}, or convert it before it goes into the dataset", to_string(format_.type))};
}

RAYTRAIN_INLINE void Column::check_one_value_a_row(std::string const& attempted) const {
  if (row_values_ == 1) return;
  throw Error{Errc::invalid_data, attempted,
              fmt::format("column '{}' has rows of shape {}, and not of one number", name(), shape_text()),
              "take a column of one number a row"};
}

RAYTRAIN_INLINE auto Column::named(std::string name) const -> Column {
  auto format = format_;
  format.name = std::move(name);
  return {std::move(format), data_, rows_};
}

RAYTRAIN_INLINE auto Column::numbers_as_booleans() const -> Column {
  auto format = format_;
  format.is_boolean = true;
  Column booleans{std::move(format), data_, rows_};
  booleans.check_booleans(fmt::format("column '{}' as booleans", name()));
  return booleans;
}

RAYTRAIN_INLINE auto Column::booleans_as_numbers() const -> Column {
  auto numbers = *this;
  numbers.format_.is_boolean = false;
  return numbers;
}

RAYTRAIN_INLINE auto Column::slice(std::size_t first, std::size_t last) const -> Column {
  auto part = *this;
  part.rows_ = last - first;
  part.data_ = {data_, data_.get() + first * row_bytes()};
  return part;
}

RAYTRAIN_INLINE auto Column::describe() const -> std::string {
  if (is_text()) return fmt::format("{} (text, {} categories)", format_.name, format_.categories->size());
  return fmt::format("{} ({}, {})", format_.name, type_name(), shape_text());
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
