// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <raytrain/core/inline.hpp>
#include <raytrain/data/detail/csv_pieces.hpp>
#include <raytrain/data/detail/csv_scanner.hpp>
#include <raytrain/data/detail/data_file.hpp>
#include <raytrain/data/detail/piece_of_lines.hpp>

namespace raytrain::detail {

struct LineCount {
  std::uint64_t lines = 0;
  std::uint64_t rows = 0;  ///< Lines that are not empty.
};

/// Counts the lines of a text without quotes, whose last character is a line feed.
[[nodiscard]] RAYTRAIN_INLINE auto count_lines(std::string_view text) -> LineCount {
  LineCount count;
  auto const has_returns = text.find('\r') != std::string_view::npos;
  for (std::size_t begin = 0; begin < text.size(); ++count.lines) {
    auto const end = has_returns ? text.find_first_of("\r\n", begin) : text.find('\n', begin);
    if (end > begin) ++count.rows;
    begin = end + (text[end] == '\r' && text[end + 1] == '\n' ? 2 : 1);
  }
  return count;
}

RAYTRAIN_INLINE auto CsvPieces::next() -> std::optional<PieceOfRows> {
  if (is_at_end_) return std::nullopt;
  PieceOfRows piece{{std::exchange(rest_, {}), line_number_}, first_row_, std::nullopt};
  auto scanner = CsvScanner::from_line(delimiter_, line_number_);
  std::size_t scanned = 0;
  std::uint64_t scanned_rows = 0;
  auto const scan_until = [&](std::size_t end) {
    scanner.feed(
        std::string_view{piece.text}.substr(scanned, end - scanned), [](auto) {}, [&] { ++scanned_rows; });
    scanned = end;
  };
  while (append_to(piece.text)) {
    auto const end = piece.text.rfind('\n') + 1;  // 0 where there is none
    auto const lines = std::string_view{piece.text}.substr(0, end);
    auto const has_quotes = lines.find('"') != std::string_view::npos;
    if (has_quotes || scanned > 0 || end == 0) scan_until(end == 0 ? piece.text.size() : end);
    if (scanner.problem()) break;
    if (end == 0 || !scanner.begins_line()) continue;
    auto const count = scanned > 0 ? LineCount{scanner.line_number() - line_number_, scanned_rows} : count_lines(lines);
    line_number_ += count.lines;
    first_row_ += count.rows;
    piece.rows = count.rows;
    rest_ = piece.text.substr(end);
    piece.text.resize(end);
    return piece;
  }
  is_at_end_ = true;
  return piece;
}

RAYTRAIN_INLINE auto CsvPieces::append_to(std::string& text) -> bool {
  auto const before = text.size();
  text.resize(before + piece_bytes_);
  auto const got = file_.read(std::as_writable_bytes(std::span{text}.subspan(before)));
  text.resize(before + got);
  return got > 0;
}

}  // namespace raytrain::detail
