// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <raytrain/data/column.hpp>
#include <raytrain/data/csv_type.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/detail/growing_column.hpp>
#include <raytrain/data/json_lines_options.hpp>
#include <raytrain/message/json_cursor.hpp>

namespace raytrain::detail {

/// How many missing values the lines may stand for: a short text must not take all memory.
class MissingValues {
 public:
  MissingValues() = default;

  /// `always`: however few bytes there are.
  explicit MissingValues(std::uint64_t always) noexcept : always_{always} {}

  /// Lines of so many bytes have been read.
  void add_bytes(std::size_t bytes) noexcept { bytes_ += bytes; }

  /// Before memory is taken for so many. Errors: `invalid_data`, above 16 for each byte.
  void add(std::uint64_t values, std::string_view what);

  /// Those of other lines, too. Whether `add` would take them.
  auto add(MissingValues const& part) noexcept -> bool;

  /// Of `count` of the `rows` that they are of, as far as they are alike.
  [[nodiscard]] auto share(std::size_t count, std::size_t rows) const noexcept -> MissingValues;

 private:
  [[nodiscard]] auto is_enough() const noexcept -> bool { return values_ <= always_ || values_ <= 16 * bytes_; }

  std::uint64_t always_ = std::uint64_t{1} << 26U;
  std::uint64_t bytes_ = 0;
  std::uint64_t values_ = 0;
};

/// A column of lines of JSON that grows row by row.
///
/// Errors: `invalid_data` for values that do not belong into one column.
class JsonColumn {
 public:
  JsonColumn(std::string name, std::optional<CsvType> type) : column_{std::move(name), type} {}

  [[nodiscard]] auto name() const noexcept -> std::string const& { return column_.name(); }
  [[nodiscard]] auto rows() const noexcept -> std::size_t { return rows_; }

  /// Whether any line had it, be it as null.
  [[nodiscard]] auto has_come() const noexcept -> bool { return has_come_; }

  void add(JsonCursor& json, MissingValues& missing);

  /// `what` says where rows are missing.
  void add_missing(std::string_view what, std::size_t rows, MissingValues& missing);

  /// Whether what may come in further lines changes neither its type nor its shape.
  [[nodiscard]] auto is_settled() const noexcept -> bool;

  /// One that takes the same values, of a column that is settled.
  [[nodiscard]] auto without_rows() const -> JsonColumn;

  /// `count` rows of what `without_rows` gave, from `first` on.
  void add_rows(JsonColumn const& part, std::size_t first, std::size_t count);

  /// The rows that came since the last time, up to the line `what`. More may follow, of the same type and shape.
  [[nodiscard]] auto take(std::string_view what) -> Column;

 private:
  enum class Kind : std::uint8_t { none, number, boolean, text };

  void add_array(JsonCursor& json, std::size_t depth);

  /// `depth`: of the arrays around it.
  void add_one(JsonCursor& json, std::size_t depth);

  void add_number(JsonCursor const& json, std::string_view text, Kind kind, std::size_t depth);

  void add_text(JsonCursor const& json, std::string_view text, std::size_t depth);

  /// The first value decides.
  void check_depth(JsonCursor const& json, std::size_t depth);

  [[noreturn]] void refuse(std::string_view what, std::string const& problem) const;

  /// What the column holds and cannot lack: "an integer".
  [[nodiscard]] auto one_value() const noexcept -> std::string_view;

  GrowingColumn column_;
  bool has_come_ = false;
  Kind kind_ = Kind::none;
  std::size_t rows_ = 0;
  std::optional<std::size_t> dimensions_;  ///< Of a row.
  RowShape shape_;                         ///< 0 for an extent that is not known yet.
  std::size_t row_values_ = 1;
};

/// Makes columns of lines of JSON.
class JsonTable {
 public:
  [[nodiscard]] static auto options_name() -> std::string { return "JsonLinesOptions"; }

  /// Errors: `invalid_config` for a column that is named twice, and for the type of one that is left out.
  explicit JsonTable(JsonLinesOptions const& options);

  /// The next lines are of this file.
  void begin_file(std::string const& name);

  /// The next lines are of `what`, as errors call it.
  void begin(std::string_view what);

  /// Whether the line is a row; one of blanks is none.
  [[nodiscard]] static auto is_row(std::string_view line) noexcept -> bool {
    return line.find_first_not_of(" \t\r") != std::string_view::npos;
  }

  void add_line(std::string_view line, std::uint64_t number);

  /// Rows that came since the last `take`.
  [[nodiscard]] auto rows() const noexcept -> std::size_t { return rows_; }

  /// Whether further lines of the file that have no other names change no type and shape.
  [[nodiscard]] auto is_settled() const -> bool;

  /// One that makes the same rows of further lines, where this one is settled, and refuses a name that has not come.
  [[nodiscard]] auto without_rows() const -> JsonTable;

  /// Whether the rows of `part`, which `without_rows` gave, are those that this one would make of its lines.
  [[nodiscard]] auto takes(JsonTable const& part) const -> bool;

  /// `count` of these rows, from `first` on.
  void add_rows(JsonTable const& part, std::size_t first, std::size_t count);

  /// These rows; more may follow, in lines without other names than those that came or have a type.
  ///
  /// Errors: also `invalid_data` where there are none.
  [[nodiscard]] auto take() -> Dataset;

  /// Behind the last line, whether its rows are taken already or not.
  ///
  /// Errors: `invalid_data` where there was no row; `not_found` for a name of the options that no line had.
  void finish() const;

 private:
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };

  /// Nothing for one that is not kept.
  [[nodiscard]] auto column_of(JsonCursor const& json, std::string_view name) -> JsonColumn*;

  /// Errors: `not_found` for names of the options that there are not.
  void choose_columns();

  [[nodiscard]] auto is_kept(std::string_view name) const -> bool { return kept_.empty() || kept_.contains(name); }

  /// Of the next number.
  void add_column(std::string_view name);

  [[noreturn]] void refuse_name(char const* field, std::string const& name) const;

  JsonLinesOptions const& options_;
  std::unordered_set<std::string_view> kept_;  ///< Of the options; empty: all.
  std::string what_;                           ///< "JSON file 'x', line 3".
  std::size_t name_bytes_ = 0;
  std::vector<JsonColumn> columns_;
  std::unordered_map<std::string, std::size_t, Hash, std::equal_to<>> numbers_;
  std::vector<std::size_t> order_;  ///< Of the columns that are given; chosen by the first `take`.
  bool has_all_names_ = false;      ///< No other ones may come.
  std::size_t next_ = 0;            ///< The column that came behind the last one in earlier lines.
  std::size_t rows_ = 0;
  MissingValues missing_;
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/data/detail/json_table-inl.hpp>
#endif
