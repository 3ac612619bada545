// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <raytrain/core/error.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/detail/csv_scanner.hpp>
#include <raytrain/data/detail/data_file.hpp>

namespace raytrain {

/// Numbers that a column of text can become.
enum class CsvType : std::uint8_t { float32, float64, int32, int64 };

/// How a file of numbers in text is read.
struct CsvOptions {
  char delimiter = ',';
  std::size_t skip_lines = 0;               ///< At the beginning, before the header.
  bool header = true;                       ///< The first line names the columns.
  std::vector<std::string> column_names{};  ///< Instead of the header's; empty: those, or "0", "1" ... without one.
  std::vector<std::string> columns{};       ///< To be kept, in this order; empty: all.
  /// The types of columns that are not float32. A float's field that is empty or one of NA, N/A, null, NaN, nan and ?
  /// is a NaN.
  std::map<std::string, CsvType, std::less<>> types{};
};

namespace detail {

/// A column of a CSV file that grows line by line.
class CsvColumn {
 public:
  CsvColumn(std::string name, CsvType type) : name_{std::move(name)} {
    switch (type) {
      case CsvType::float32: break;
      case CsvType::float64: values_ = std::vector<double>{}; break;
      case CsvType::int32: values_ = std::vector<std::int32_t>{}; break;
      case CsvType::int64: values_ = std::vector<std::int64_t>{}; break;
    }
  }

  [[nodiscard]] auto name() const noexcept -> std::string const& { return name_; }

  /// False when the text is no such number.
  [[nodiscard]] auto add(std::string_view text) -> bool {
    while (text.starts_with(' ') || text.starts_with('\t')) text.remove_prefix(1);
    while (text.ends_with(' ') || text.ends_with('\t')) text.remove_suffix(1);
    return std::visit([&]<class T>(std::vector<T>& values) { return add_to(values, text); }, values_);
  }

  [[nodiscard]] auto take() && -> Column {
    return std::visit([&](auto& values) { return Column{std::move(name_), std::move(values)}; }, values_);
  }

 private:
  template <class T>
  static auto add_to(std::vector<T>& values, std::string_view text) -> bool {
    if constexpr (std::floating_point<T>) {
      constexpr std::array<std::string_view, 7> missing{"", "NA", "N/A", "null", "NaN", "nan", "?"};
      if (std::ranges::find(missing, text) != missing.end()) {
        values.push_back(std::numeric_limits<T>::quiet_NaN());
        return true;
      }
    }
    if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
    auto const* const last = text.data() + text.size();
    T value{};
    auto [end, problem] = std::from_chars(text.data(), last, value);
    if constexpr (std::floating_point<T>) {
      // Out of range is too large, or so small that it is 0 to this type.
      if (problem == std::errc::result_out_of_range) {
        long double wide{};
        problem = std::from_chars(text.data(), last, wide).ec;
        if (std::abs(wide) >= 1) return false;
        value = static_cast<T>(wide);
      }
    }
    if (problem != std::errc{} || end != last) return false;
    values.push_back(value);
    return true;
  }

  std::string name_;
  std::variant<std::vector<float>, std::vector<double>, std::vector<std::int32_t>, std::vector<std::int64_t>> values_;
};

/// Makes columns of the fields of a CSV file.
class CsvTable {
 public:
  CsvTable(CsvOptions const& options, std::string attempted) : options_{options}, attempted_{std::move(attempted)} {
    if (!options.header && !options.column_names.empty()) begin(options.column_names);
  }

  void field(std::string_view text, std::uint64_t line) {
    if (!begun_ && options_.header) {
      header_.emplace_back(text);
      return;
    }
    if (!begun_) {  // names follow from how many there are
      first_line_.emplace_back(text);
      return;
    }
    add(text, line);
  }

  void end_line(std::uint64_t line) {
    if (!begun_ && options_.header) {
      if (!options_.column_names.empty() && options_.column_names.size() != header_.size()) {
        refuse(fmt::format("the header has {} columns, and CsvOptions::column_names {}", header_.size(),
                           options_.column_names.size()),
               "name all of them");
      }
      begin(options_.column_names.empty() ? header_ : options_.column_names);
      return;
    }
    if (!begun_) {
      std::vector<std::string> names;
      for (std::size_t i = 0; i < first_line_.size(); ++i) names.push_back(std::to_string(i));
      begin(names);
      for (auto const& text : first_line_) add(text, line);
    }
    if (next_ != slots_.size()) {
      refuse(fmt::format("line {} has {} fields, and there are {} columns", line, next_, slots_.size()),
             "look for a delimiter that is missing, or choose another CsvOptions::delimiter");
    }
    next_ = 0;
    ++rows_;
  }

  [[nodiscard]] auto take() && -> Dataset {
    if (rows_ == 0) refuse("there are no rows", "look at the file, and at CsvOptions::skip_lines and header");
    std::vector<Column> columns;
    for (auto& column : columns_) columns.push_back(std::move(column).take());
    return Dataset::from_columns(std::move(columns));
  }

  [[noreturn]] void refuse(std::string happened, std::string remedy) const {
    throw Error{Errc::invalid_data, attempted_, std::move(happened), std::move(remedy)};
  }

 private:
  static constexpr std::size_t left_out = std::numeric_limits<std::size_t>::max();

  void begin(std::vector<std::string> const& names) {
    begun_ = true;
    std::unordered_map<std::string_view, std::size_t> places;
    for (auto const& name : names) {
      if (!places.emplace(name, places.size()).second) {
        refuse(fmt::format("two columns are named '{}'", name), "give all of them a name by CsvOptions::column_names");
      }
    }
    auto const& kept = options_.columns.empty() ? names : options_.columns;
    slots_.assign(names.size(), left_out);
    for (auto const& name : kept) {
      auto const found = places.find(name);
      if (found == places.end()) not_there("columns", name, names);
      auto const type = options_.types.find(name);
      slots_[found->second] = columns_.size();
      columns_.emplace_back(name, type == options_.types.end() ? CsvType::float32 : type->second);
    }
    for (auto const& [name, type] : options_.types) {
      if (!places.contains(name)) not_there("types", name, names);
    }
  }

  [[noreturn]] void not_there(char const* field, std::string const& name, std::vector<std::string> const& names) const {
    throw Error{Errc::not_found, attempted_,
                fmt::format("CsvOptions::{} names '{}', and the file has {}", field, name, fmt::join(names, ", ")),
                "name one of them"};
  }

  void add(std::string_view text, std::uint64_t line) {
    auto const at = next_++;
    if (at >= slots_.size() || slots_[at] == left_out) return;
    auto& column = columns_[slots_[at]];
    if (column.add(text)) return;
    constexpr std::size_t shown = 40;
    refuse(fmt::format("line {}, column '{}': '{}' is not a number that it can hold", line, column.name(),
                       text.substr(0, shown)),
           "write numbers, leave the column out by CsvOptions::columns, or give it another of CsvOptions::types");
  }

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

/// The numbers of a CSV file, plain or gzip, one column for each of its own.
///
/// Lines end with a line feed, a carriage return, or both. A number too small for its column is 0.
/// Errors: `not_found` for a file or a column that is not there, listing those that are; `io`; `invalid_data` for a
/// line
///         with more or fewer fields than columns, a field that is no number, two columns of one name, and no rows,
///         with the line.
/// Source: RFC 4180 for quoted fields.
[[nodiscard]] inline auto read_csv(std::filesystem::path const& path, CsvOptions const& options = {}) -> Dataset {
  detail::DataFile file{path};
  detail::CsvTable table{options, fmt::format("read CSV file '{}'", path.string())};
  detail::CsvScanner scanner{options.delimiter, options.skip_lines};
  auto const field = [&](std::string_view text) { table.field(text, scanner.line_number()); };
  auto const line = [&] { table.end_line(scanner.line_number()); };
  constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
  std::vector<char> buffer(std::size_t{1} << 18U);
  auto first = true;
  while (auto const count = file.read(std::as_writable_bytes(std::span{buffer}))) {
    std::string_view piece{buffer.data(), count};
    if (std::exchange(first, false) && piece.starts_with(byte_order_mark)) piece.remove_prefix(byte_order_mark.size());
    scanner.feed(piece, field, line);
    if (scanner.problem()) break;
  }
  scanner.finish(field, line);
  if (scanner.problem()) table.refuse(*scanner.problem(), "close the quotes, and double those inside of a field");
  return std::move(table).take();
}

}  // namespace raytrain
