// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

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
  /// Of a column of text, whose type is int32 with one value a row: each value is the number of one of these, from 0,
  /// or -1 where the text is missing. Null: a column of numbers.
  std::shared_ptr<std::vector<std::string> const> categories{};
  /// Whether the values, which are uint8 then, stand for true, 1, and false, 0. Whatever takes numbers takes them as
  /// such.
  bool is_boolean = false;
};

/// Rows of one format, one behind the other in memory. Copies and slices share the memory, which never changes, but
/// with a file that is mapped.
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

  /// `rows` rows that start at `first`, in this machine's byte order, aligned for the element type. Their values are
  /// not looked at: what writes booleans refuses those that are neither 0 nor 1.
  ///
  /// Errors: `invalid_data` when the name is empty or an extent is 0, and for booleans of another type than uint8.
  Column(ColumnFormat format, std::shared_ptr<std::byte const> first, std::size_t rows);

  /// A text, or none, in each row: `Column::of_texts("city", {"Oslo", std::nullopt, "Rome"})`. Each different one is
  /// kept once, and the rows as int32 codes: its number among the categories, which are sorted by their bytes, or -1.
  ///
  /// Errors: `invalid_data` when the name is empty.
  [[nodiscard]] static auto of_texts(std::string name, std::vector<std::optional<std::string>> const& texts) -> Column;

  /// `Column::of_booleans("clicked", {true, false})`, or with several values in each row.
  ///
  /// Errors: `invalid_data` as of the constructor of values.
  [[nodiscard]] static auto of_booleans(std::string name, std::vector<bool> const& values, RowShape row_shape = {})
      -> Column;

  [[nodiscard]] auto format() const noexcept -> ColumnFormat const& { return format_; }
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

  /// Calls `work` with all values, row after row, as a span of their type, whichever that is.
  template <class Work>
  void visit(Work const& work) const {
    with_element_type(type(), [&]<Element T>(T*) { work(as<T>()); });
  }

  /// Whether its rows are texts. `as<std::int32_t>()` are their codes then.
  [[nodiscard]] auto is_text() const noexcept -> bool { return format_.categories != nullptr; }

  /// Whether its values stand for true and false. `as<std::uint8_t>()` are 1 and 0 then.
  [[nodiscard]] auto is_boolean() const noexcept -> bool { return format_.is_boolean; }

  /// "float32", "bool" or "text".
  [[nodiscard]] auto type_name() const noexcept -> std::string_view;

  /// The texts that codes stand for, each once: also of rows that a slice of the column has not.
  ///
  /// Errors: `invalid_data` for a column of numbers.
  [[nodiscard]] auto categories() const -> std::span<std::string const>;

  /// The text of a row below `rows()`, or none where it is missing. Lives as long as any copy of this column.
  ///
  /// Errors: `invalid_data` for a column of numbers.
  [[nodiscard]] auto text(std::size_t row) const -> std::optional<std::string_view>;

  /// Errors: `invalid_data` when the column holds text, which `attempted` cannot take.
  void check_holds_numbers(std::string const& attempted) const;

  /// Errors: `invalid_data` when it is of booleans, and a value is neither 0 nor 1, which `attempted` cannot take.
  void check_booleans(std::string const& attempted) const;

  /// Errors: `invalid_data` when the column has more than one value a row, which `attempted` cannot take.
  void check_one_value_a_row(std::string const& attempted) const;

  /// Errors: `invalid_data` when the column holds another type, saying which.
  void check_type(ElementType wanted) const;

  /// The same rows under another name.
  [[nodiscard]] auto named(std::string name) const -> Column;

  /// The same uint8 as booleans, as they are needed beside others, or to be written.
  ///
  /// Errors: `invalid_data` for another type than uint8, for text, and for a value that is neither 0 nor 1.
  [[nodiscard]] auto numbers_as_booleans() const -> Column;

  /// The same booleans as numbers, 1 and 0 of uint8; any other column as it is.
  [[nodiscard]] auto booleans_as_numbers() const -> Column;

  /// Rows `first` to `last`, the latter not included; both at most `rows()`, in this order.
  [[nodiscard]] auto slice(std::size_t first, std::size_t last) const -> Column;

  /// "image (uint8, 28 x 28)"; "clicked (bool, scalar)"; "city (text, 3 categories)".
  [[nodiscard]] auto describe() const -> std::string;

 private:
  [[nodiscard]] auto shape_text() const -> std::string;

  ColumnFormat format_;
  std::size_t row_values_ = 1;
  std::size_t rows_;
  std::shared_ptr<std::byte const> data_;
};

/// Errors: `not_found` when there is no column of that name, listing those that there are.
[[nodiscard]] auto find_column(std::span<Column const> columns, std::string_view name) -> Column const&;

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/data/column-inl.hpp>
#endif
