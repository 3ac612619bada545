// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <raytrain/core/element_type.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/utf8.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/data_paths.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/dataset_blocks.hpp>
#include <raytrain/data/detail/data_file.hpp>
#include <raytrain/data/detail/file_blocks.hpp>
#include <raytrain/data/detail/json_table.hpp>
#include <raytrain/data/detail/lines_file.hpp>
#include <raytrain/data/detail/number_text.hpp>
#include <raytrain/data/detail/piece_of_lines.hpp>
#include <raytrain/data/detail/table_of_lines.hpp>
#include <raytrain/data/json_lines.hpp>
#include <raytrain/message/json.hpp>

namespace raytrain::detail {

/// A column as it is written: its name and each of its texts in quotes once; nothing for a text that no row has.
struct JsonLinesColumn {
  Column column;
  std::string name;
  std::vector<std::string> texts;
};

[[nodiscard]] RAYTRAIN_INLINE auto quoted(std::string const& text, std::string const& attempted) -> std::string {
  if (is_utf8(text)) return json_string(text);
  throw Error{Errc::invalid_data, attempted, fmt::format("'{}' is not UTF-8", to_utf8(text)),
              "replace the bytes that are not by raytrain::to_utf8"};
}

[[nodiscard]] RAYTRAIN_INLINE auto written_column(Column const& column, std::string const& attempted)
    -> JsonLinesColumn {
  JsonLinesColumn written{column, quoted(column.name(), attempted), {}};
  column.check_booleans(attempted);
  if (!column.is_text()) return written;
  auto const categories = column.categories();
  written.texts.resize(categories.size());
  for (auto const code : column.as<std::int32_t>()) {
    if (code < 0) continue;
    auto& text = written.texts[static_cast<std::size_t>(code)];
    if (text.empty()) text = quoted(categories[static_cast<std::size_t>(code)], attempted);
  }
  return written;
}

template <Element T>
void append_json_value(std::string& line, T value) {
  if (is_nan(value)) {
    line += "null";
    return;
  }
  if constexpr (!std::integral<T>) {
    if (auto const number =
            static_cast<double>(static_cast<std::conditional_t<std::is_arithmetic_v<T>, T, float>>(value));
        std::isinf(number)) {
      line += number > 0 ? "\"Infinity\"" : "\"-Infinity\"";
      return;
    }
  }
  append_shortest(line, value);
}

template <Element T, class Append>
void append_json_row(std::string& line, std::span<T const> values, std::span<std::size_t const> shape,
                     Append const& append_value) {
  if (shape.empty()) return append_value(line, values.front());
  auto const each = values.size() / shape.front();
  line += '[';
  for (std::size_t i = 0; i < shape.front(); ++i) {
    if (i > 0) line += ',';
    append_json_row(line, values.subspan(i * each, each), shape.subspan(1), append_value);
  }
  line += ']';
}

RAYTRAIN_INLINE void append_json_row(std::string& line, JsonLinesColumn const& written, std::size_t row) {
  auto const& column = written.column;
  if (column.is_text()) {
    auto const code = column.as<std::int32_t>()[row];
    line += code < 0 ? std::string_view{"null"} : written.texts[static_cast<std::size_t>(code)];
    return;
  }
  auto const append = [&]<Element T>(std::span<T const> values, auto const& append_value) {
    append_json_row(line, values.subspan(row * column.row_values(), column.row_values()), column.row_shape(),
                    append_value);
  };
  if (column.is_boolean()) {
    return append(column.as<std::uint8_t>(),
                  [](std::string& to, std::uint8_t value) { to += value == 0 ? "false" : "true"; });
  }
  column.visit([&]<Element T>(std::span<T const> values) { append(values, append_json_value<T>); });
}

/// A file of JSON lines that grows block by block.
class JsonLinesWriter {
 public:
  explicit JsonLinesWriter(std::filesystem::path const& path)
      : file_{path, fmt::format("write JSON file '{}'", path.string()), "names, types and row shapes"} {}

  /// The first block's columns are those of the file. Errors: those of `write_json_lines`.
  void append(Dataset const& block) {
    if (!file_.takes(block)) return;
    std::vector<JsonLinesColumn> columns;
    for (auto const& column : file_.columns_of(block)) columns.push_back(written_column(column, file_.attempted()));
    for (std::size_t row = 0; row < block.rows(); ++row) append_row(columns, row);
  }

  /// Errors: `invalid_data` where no block came; `io`.
  void finish() { file_.finish(); }

 private:
  void append_row(std::span<JsonLinesColumn const> columns, std::size_t row) {
    auto& line = file_.line();
    auto separator = '{';
    for (auto const& column : columns) {
      line += std::exchange(separator, ',');
      line += column.name;
      line += ':';
      append_json_row(line, column, row);
    }
    line += '}';
    file_.end_line();
  }

  LinesFile file_;
};

/// All that the columns of files of JSON lines follow from, besides their content.
[[nodiscard]] RAYTRAIN_INLINE auto options_text(JsonLinesOptions const& options) -> std::string {
  std::string text = "JSON lines, columns";
  for (auto const& name : options.columns) text += ' ' + exact_text(name);
  text += ", types";
  for (auto const& [name, type] : options.types)
    text += fmt::format(" {} {}", exact_text(name), static_cast<int>(type));
  return text;
}

}  // namespace raytrain::detail

namespace raytrain {

RAYTRAIN_INLINE auto read_json_lines(DataPaths const& paths, JsonLinesOptions const& options) -> Dataset {
  return detail::table_of_lines<detail::JsonTable>(paths, options);
}

RAYTRAIN_INLINE auto parse_json_lines(std::string_view text, JsonLinesOptions const& options, std::string_view what)
    -> Dataset {
  detail::JsonTable table{options};
  table.begin(what);
  text = detail::without_byte_order_mark(text, fmt::format("reading {}", what));
  for (std::uint64_t number = 1; !text.empty(); ++number) table.add_line(detail::take_line(text), number);
  table.finish();  // first, since a column that no line has would lack its integers
  return table.take();
}

RAYTRAIN_INLINE auto json_lines_blocks(DataPaths const& paths, JsonLinesOptions options, std::size_t rows)
    -> DatasetBlocks {
  auto format = detail::options_text(options);
  return detail::blocks_of_lines<detail::JsonTable>(
      paths, std::move(options), {.function = "json_lines_blocks", .format = std::move(format), .rows = rows});
}

RAYTRAIN_INLINE void write_json_lines(Dataset const& dataset, std::filesystem::path const& path) {
  detail::JsonLinesWriter file{path};
  file.append(dataset);
  file.finish();
}

RAYTRAIN_INLINE void write_json_lines(DatasetBlocks blocks, std::filesystem::path const& path) {
  blocks.check_is_fresh(fmt::format("write JSON file '{}'", path.string()));
  detail::JsonLinesWriter file{path};
  for (auto const& block : blocks) file.append(block);
  file.finish();
}

}  // namespace raytrain
