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
#include <string>
#include <string_view>
#include <system_error>
#include <variant>
#include <vector>

#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>

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
  CsvColumn(std::string name, CsvType type);

  [[nodiscard]] auto name() const noexcept -> std::string const& { return name_; }

  /// False when the text is no such number.
  [[nodiscard]] auto add(std::string_view text) -> bool;

  [[nodiscard]] auto take() && -> Column;

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

/// The numbers of a CSV file, plain or gzip, one column for each of its own.
///
/// Lines end with a line feed, a carriage return, or both. A number too small for its column is 0.
/// Errors: `not_found` for a file or a column that is not there, listing those that are; `io`; `invalid_data`, with the
///         line, for one with more or fewer fields than columns, a field that is no number, two columns of one name,
///         and no rows.
/// Source: RFC 4180 for quoted fields.
[[nodiscard]] auto read_csv(std::filesystem::path const& path, CsvOptions const& options = {}) -> Dataset;

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/data/csv-inl.hpp>
#endif
