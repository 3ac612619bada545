// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <raytrain/core/bytes.hpp>
#include <raytrain/core/element_type.hpp>
#include <raytrain/core/error.hpp>

namespace raytrain {

/// Extents of one row, the slowest first: {28, 28} for an image of 28 lines; {} for one value.
using RowShape = std::vector<std::size_t>;

/// What the rows of a column are.
struct ColumnFormat {
  std::string name{};                     ///< Not empty.
  ElementType type = ElementType::uint8;  ///< Type of each value.
  RowShape row_shape{};                   ///< No extent is 0.
};

/// Rows of one format, one behind the other in memory. Copies and slices share the memory, which never changes.
///
/// Threads: every function from any thread.
class Column {
 public:
  /// Takes the values over without copying them when they are moved in.
  ///
  /// Errors: `invalid_data` when the name is empty, an extent is 0, or the values do not fill whole rows.
  template <Element T>
  Column(std::string name, std::vector<T> values, RowShape row_shape = {})
      : Column{ColumnFormat{std::move(name), element_type<T>, std::move(row_shape)}, nullptr, 0} {
    if (values.size() % row_values_ != 0) {
      throw Error{Errc::invalid_data, "column '" + format_.name + "'",
                  fmt::format("{} values do not divide by the row shape {}, which is {} a row", values.size(),
                              shape_text(), row_values_),
                  "give the shape of one row, without the number of rows"};
    }
    rows_ = values.size() / row_values_;
    auto owner = std::make_shared<std::vector<T> const>(std::move(values));
    data_ = {owner, reinterpret_cast<std::byte const*>(owner->data())};
  }

  /// `rows` rows that start at `first`, in this machine's byte order, aligned for the element type.
  ///
  /// Errors: `invalid_data` when the name is empty or an extent is 0.
  Column(ColumnFormat format, std::shared_ptr<std::byte const> first, std::size_t rows)
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

  [[nodiscard]] auto name() const noexcept -> std::string const& { return format_.name; }
  [[nodiscard]] auto type() const noexcept -> ElementType { return format_.type; }
  [[nodiscard]] auto row_shape() const noexcept -> RowShape const& { return format_.row_shape; }
  [[nodiscard]] auto rows() const noexcept -> std::size_t { return rows_; }
  [[nodiscard]] auto row_values() const noexcept -> std::size_t { return row_values_; }
  [[nodiscard]] auto row_bytes() const noexcept -> std::size_t { return row_values_ * size_bytes(format_.type); }
  [[nodiscard]] auto bytes() const noexcept -> BytesView { return {data_.get(), rows_ * row_bytes()}; }

  /// All values, row after row.
  ///
  /// Errors: `invalid_data` when the column holds another type, saying which.
  template <Element T>
  [[nodiscard]] auto as() const -> std::span<T const> {
    check_type(element_type<T>);
    return {reinterpret_cast<T const*>(data_.get()), rows_ * row_values_};
  }

  /// Errors: `invalid_data` when the column holds another type, saying which.
  void check_type(ElementType wanted) const {
    if (wanted == format_.type) return;
    throw Error{Errc::invalid_data, fmt::format("column '{}' as {}", format_.name, to_string(wanted)),
                fmt::format("it holds {} of row shape {}", to_string(format_.type), shape_text()),
                fmt::format("ask for {}, or convert it before it goes into the dataset", to_string(format_.type))};
  }

  /// The same rows under another name.
  [[nodiscard]] auto named(std::string name) const -> Column {
    return {ColumnFormat{std::move(name), format_.type, format_.row_shape}, data_, rows_};
  }

  /// Rows `first` to `last`, the latter not included; both at most `rows()`, in this order.
  [[nodiscard]] auto slice(std::size_t first, std::size_t last) const -> Column {
    auto part = *this;
    part.rows_ = last - first;
    part.data_ = {data_, data_.get() + first * row_bytes()};
    return part;
  }

  /// "image (uint8, 28 x 28)".
  [[nodiscard]] auto describe() const -> std::string {
    return fmt::format("{} ({}, {})", format_.name, to_string(format_.type), shape_text());
  }

 private:
  [[nodiscard]] auto shape_text() const -> std::string {
    return format_.row_shape.empty() ? "scalar" : fmt::format("{}", fmt::join(format_.row_shape, " x "));
  }

  ColumnFormat format_;
  std::size_t row_values_ = 1;
  std::size_t rows_;
  std::shared_ptr<std::byte const> data_;
};

/// Errors: `not_found` when there is no column of that name, listing those that there are.
[[nodiscard]] inline auto find_column(std::span<Column const> columns, std::string_view name) -> Column const& {
  auto const found = std::ranges::find(columns, name, &Column::name);
  if (found != columns.end()) return *found;
  std::string present;
  for (auto const& column : columns) present += (present.empty() ? "" : ", ") + column.describe();
  throw Error{Errc::not_found, fmt::format("column '{}'", name),
              "is not in the dataset, which has " + (present.empty() ? "none" : present), "name one of them"};
}

}  // namespace raytrain
