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
#include <raytrain/data/detail/new_file.hpp>
#include <raytrain/data/detail/number_text.hpp>
#include <raytrain/data/write_csv.hpp>

namespace raytrain::detail {

/// In quotes where it would not be read as it is, as the mark that some files begin with.
RAYTRAIN_INLINE void append_csv_text(std::string& line, std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos && !text.starts_with("\xEF\xBB\xBF")) {
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

}  // namespace raytrain::detail

namespace raytrain {

RAYTRAIN_INLINE void write_csv(Dataset const& dataset, std::filesystem::path const& path) {
  auto const attempted = fmt::format("write CSV file '{}'", path.string());
  auto const columns = dataset.columns();
  if (columns.empty()) throw Error{Errc::invalid_data, attempted, "the dataset has no column", "add one"};
  for (auto const& column : columns) {
    column.check_one_value_a_row(attempted);
    detail::check_texts_can_be_read(column, attempted);
  }
  detail::NewFile file{path, attempted};
  std::string text;
  auto const end_field = [&](Column const& column) { text += &column == &columns.back() ? '\n' : ','; };
  for (auto const& column : columns) {
    detail::append_csv_text(text, column.name());
    end_field(column);
  }
  constexpr std::size_t piece_bytes = std::size_t{1} << 18U;
  for (std::size_t row = 0; row < dataset.rows(); ++row) {
    auto const begin = text.size();
    for (auto const& column : columns) {
      detail::append_csv_value(text, column, row);
      if (columns.size() == 1 && text.size() == begin) text += "\"\"";  // an empty line would be no row
      end_field(column);
    }
    if (text.size() < piece_bytes) continue;
    file.write(text);
    text.clear();
  }
  file.write(text);
  file.finish();
}

}  // namespace raytrain
