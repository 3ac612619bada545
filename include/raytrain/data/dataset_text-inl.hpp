// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <raytrain/core/element_type.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/dataset_text.hpp>
#include <raytrain/data/detail/text_table.hpp>

namespace raytrain::detail {

/// "float32", "uint8 28 x 28", "bool", "text".
[[nodiscard]] RAYTRAIN_INLINE auto format_of(Column const& column) -> std::string {
  return fmt::format("{}{}{}", column.type_name(), column.row_shape().empty() ? "" : " ",
                     fmt::join(column.row_shape(), " x "));
}

/// The text, or what it begins with; nothing for one that is missing.
[[nodiscard]] RAYTRAIN_INLINE auto cell_of(std::optional<std::string_view> text) -> std::string {
  constexpr std::size_t shown_bytes = 40;
  if (!text || text->size() <= shown_bytes) return std::string{text.value_or("")};
  auto end = shown_bytes;
  while (end > 0 && (static_cast<unsigned char>((*text)[end]) & 0xc0U) == 0x80U) --end;  // inside a character of UTF-8
  return std::string{text->substr(0, end)} + "...";
}

/// A cell for each of these rows: "1.5", or "[0, 1, 2, ...]".
[[nodiscard]] RAYTRAIN_INLINE auto cells_of(Column const& column, std::size_t rows) -> std::vector<std::string> {
  constexpr std::size_t shown_values = 3;
  std::vector<std::string> cells;
  if (column.is_text()) {
    for (std::size_t row = 0; row < rows; ++row) cells.push_back(cell_of(column.text(row)));
    return cells;
  }
  column.visit([&]<Element T>(std::span<T const> values) {
    auto const text_of = [&](T value) {
      if (column.is_boolean() && as_double(value) <= 1) return std::string{as_double(value) == 0 ? "false" : "true"};
      if constexpr (std::integral<T>) {
        return fmt::format("{}", value);
      } else {
        return fmt::format("{:.6g}", as_double(value));
      }
    };
    for (std::size_t row = 0; row < rows; ++row) {
      auto const of_row = values.subspan(row * column.row_values(), column.row_values());
      std::string cell;
      for (auto const value : of_row.first(std::min(of_row.size(), shown_values))) {
        cell += (cell.empty() ? "" : ", ") + text_of(value);
      }
      auto const is_scalar = column.row_shape().empty();
      cells.push_back(is_scalar ? cell : "[" + cell + (of_row.size() > shown_values ? ", ...]" : "]"));
    }
  });
  return cells;
}

}  // namespace raytrain::detail

namespace raytrain {

RAYTRAIN_INLINE auto to_string(Dataset const& dataset, std::size_t rows) -> std::string {
  auto const shown = std::min(rows, dataset.rows());
  std::vector<std::vector<std::string>> lines(dataset.columns().empty() ? 0 : 2 + shown);
  for (auto const& column : dataset.columns()) {
    lines[0].push_back(column.name());
    lines[1].push_back(detail::format_of(column));
    auto cells = detail::cells_of(column, shown);
    for (std::size_t row = 0; row < shown; ++row) lines[2 + row].push_back(std::move(cells[row]));
  }
  auto text = detail::text_table(std::move(lines), false);
  if (shown < dataset.rows() || dataset.columns().empty()) text += fmt::format("{} rows\n", dataset.rows());
  return text;
}

RAYTRAIN_INLINE void show(Dataset const& dataset, std::size_t rows) { fmt::print("{}", to_string(dataset, rows)); }

}  // namespace raytrain
