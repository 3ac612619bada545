// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <raytrain/core/element_type.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/csv.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/dataset_blocks.hpp>
#include <raytrain/data/detail/data_file.hpp>
#include <raytrain/data/detail/lines_file.hpp>
#include <raytrain/data/detail/number_text.hpp>
#include <raytrain/data/write_csv.hpp>

namespace raytrain::detail {

/// In quotes where it would not be read as it is: as what files begin with that are compressed or have a byte order
/// mark.
RAYTRAIN_INLINE void append_csv_text(std::string& line, std::string_view text) {
  auto const is_read_otherwise = text.find_first_of(",\"\r\n") != std::string_view::npos ||
                                 !byte_order_mark_of(text).empty() || !compression_of(text).empty();
  if (!is_read_otherwise) {
    line += text;
    return;
  }
  line += '"';
  for (auto const letter : text) line.append(letter == '"' ? 2 : 1, letter);
  line += '"';
}

RAYTRAIN_INLINE void append_csv_value(std::string& line, Column const& column, std::size_t row) {
  if (column.is_text()) {
    if (auto const text = column.text(row)) append_csv_text(line, *text);
    return;
  }
  if (column.is_boolean()) {
    line += column.as<std::uint8_t>()[row] == 0 ? "false" : "true";
    return;
  }
  column.visit([&]<Element T>(std::span<T const> values) {
    if (!is_nan(values[row])) append_shortest(line, values[row]);
  });
}

/// Errors: `invalid_data` for a text that would be read as a missing one.
RAYTRAIN_INLINE void check_texts_can_be_read(Column const& column, std::string const& attempted) {
  if (!column.is_text()) return;
  auto const categories = column.categories();  // of which a slice may not have all
  std::vector<bool> is_missing;
  for (auto const& text : categories) is_missing.push_back(is_missing_csv_field(text));
  for (auto const code : column.as<std::int32_t>()) {
    if (code < 0 || !is_missing[static_cast<std::size_t>(code)]) continue;
    auto const& text = categories[static_cast<std::size_t>(code)];
    throw Error{
        Errc::invalid_data, attempted,
        fmt::format("column '{}' has the text '{}', which read_csv takes for a missing one", column.name(), text),
        "give such rows another text, or none"};
  }
}

/// A CSV file that grows block by block.
class CsvFileWriter {
 public:
  explicit CsvFileWriter(std::filesystem::path const& path)
      : file_{path, fmt::format("write CSV file '{}'", path.string()), "names and types"} {}

  /// The first block's columns are those of the file. Errors: those of `write_csv`.
  void append(Dataset const& block) {
    if (!file_.takes(block)) return;
    for (auto const& column : block.columns()) {
      column.check_one_value_a_row(file_.attempted());
      column.check_booleans(file_.attempted());
      check_texts_can_be_read(column, file_.attempted());
    }
    auto const is_first = !file_.has_begun();
    auto const columns = file_.columns_of(block);
    if (is_first) append_names(columns);
    for (std::size_t row = 0; row < block.rows(); ++row) append_row(columns, row);
  }

  /// Errors: `invalid_data` where no block came; `io`.
  void finish() { file_.finish(); }

 private:
  void append_names(std::span<Column const> columns) {
    for (auto const& column : columns) {
      if (&column != &columns.front()) file_.line() += ',';
      append_csv_text(file_.line(), column.name());
    }
    file_.end_line();
  }

  void append_row(std::span<Column const> columns, std::size_t row) {
    auto& line = file_.line();
    auto const begin = line.size();
    for (auto const& column : columns) {
      if (&column != &columns.front()) line += ',';
      append_csv_value(line, column, row);
    }
    if (line.size() == begin) line += "\"\"";  // an empty line would be no row
    file_.end_line();
  }

  LinesFile file_;
};

}  // namespace raytrain::detail

namespace raytrain {

RAYTRAIN_INLINE void write_csv(Dataset const& dataset, std::filesystem::path const& path) {
  detail::CsvFileWriter file{path};
  file.append(dataset);
  file.finish();
}

RAYTRAIN_INLINE void write_csv(DatasetBlocks blocks, std::filesystem::path const& path) {
  blocks.check_is_fresh(fmt::format("write CSV file '{}'", path.string()));
  detail::CsvFileWriter file{path};
  for (auto const& block : blocks) file.append(block);
  file.finish();
}

}  // namespace raytrain
