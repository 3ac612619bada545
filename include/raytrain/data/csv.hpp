// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <raytrain/data/column.hpp>
#include <raytrain/data/csv_type.hpp>
#include <raytrain/data/data_paths.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/detail/growing_column.hpp>

namespace raytrain {

/// How a CSV file is read.
struct CsvOptions {
  char delimiter = ',';
  std::size_t skip_lines = 0;               ///< At the beginning, before the header.
  bool header = true;                       ///< The first line names the columns.
  std::vector<std::string> column_names{};  ///< Instead of the header's; empty: those, or "0", "1" ... without one.
  std::vector<std::string> columns{};       ///< To be kept, in this order; empty: all.
  /// The types of columns; of one that is not named, its first field that is not missing decides: a number makes it
  /// float32, anything else text. Whole numbers that float32 has not, from 16,777,217 on, as dates and keys, are
  /// refused there. A field is missing that is empty or one of NA, N/A, n/a, #N/A, <NA>, null, NULL, NaN, nan and ?:
  /// that is a NaN to a float, no text to text, and refused for an integer.
  std::map<std::string, CsvType, std::less<>> types{};
};

namespace detail {

/// Whether it stands for no value, blanks around it left aside.
[[nodiscard]] auto is_missing_csv_field(std::string_view field) -> bool;

/// A column of a CSV file that grows line by line.
class CsvColumn {
 public:
  /// Without a type, the first field decides that is not missing.
  CsvColumn(std::string name, std::optional<CsvType> type) : column_{std::move(name), type} {}

  [[nodiscard]] auto name() const noexcept -> std::string const& { return column_.name(); }

  /// False when the text is no such number.
  [[nodiscard]] auto add(std::string_view field) -> bool;

  [[nodiscard]] auto take() && -> Column { return std::move(column_).take(); }

 private:
  GrowingColumn column_;
};

/// Makes columns of the fields of a CSV file.
class CsvTable {
 public:
  CsvTable(CsvOptions const& options, std::string attempted);

  void field(std::string_view text, std::uint64_t line);

  void end_line(std::uint64_t line);

  [[nodiscard]] auto take() && -> Dataset;

  [[noreturn]] void refuse(std::string happened, std::string remedy) const;

 private:
  static constexpr std::size_t left_out = std::numeric_limits<std::size_t>::max();

  void begin(std::vector<std::string> const& names);

  [[noreturn]] void not_there(char const* field, std::string const& name, std::vector<std::string> const& names) const;

  void add(std::string_view text, std::uint64_t line);

  CsvOptions const& options_;
  std::string attempted_;
  bool begun_ = false;
  std::vector<std::string> header_;
  std::vector<std::string> first_line_;
  std::vector<std::size_t> slots_;  ///< Which column a field goes to.
  std::vector<CsvColumn> columns_;
  std::size_t next_ = 0;
  std::size_t rows_ = 0;
};

}  // namespace detail

/// The numbers and texts of a CSV file, plain or gzip, one column for each of its own. The rows of several files follow
/// one another; each has its own header, and the same columns as the first one, in any order.
///
/// Lines end with a line feed, a carriage return, or both. A number too small for its column is 0. Blanks around a
/// number do not count; they are part of a text.
/// Errors: those of `DataPaths::files`; `not_found` for a file or a column that is not there, listing those that are;
///         `io`; `invalid_data`, with the line, for one with more or fewer fields than columns, a field that is no
///         number, two columns of one name or one without a name, no rows, and for files whose columns differ.
/// Cost: the rows of several files are copied once.
/// Source: RFC 4180 for quoted fields.
[[nodiscard]] auto read_csv(DataPaths const& paths, CsvOptions const& options = {}) -> Dataset;

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/data/csv-inl.hpp>
#endif
