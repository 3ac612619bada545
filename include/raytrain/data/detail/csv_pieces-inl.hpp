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

/// How many lines end in a text without quotes, whose last character is a line feed.
[[nodiscard]] RAYTRAIN_INLINE auto line_count(std::string_view text) -> std::uint64_t {
  auto lines = static_cast<std::uint64_t>(std::ranges::count(text, '\n'));
  for (auto at = text.find('\r'); at != std::string_view::npos; at = text.find('\r', at + 1)) {
    if (text[at + 1] != '\n') ++lines;
  }
  return lines;
}

RAYTRAIN_INLINE auto CsvPieces::next() -> std::optional<PieceOfLines> {
  if (is_at_end_) return std::nullopt;
  PieceOfLines piece{std::exchange(rest_, {}), line_number_};
  auto scanner = CsvScanner::from_line(delimiter_, line_number_);
  std::size_t scanned = 0;
  auto const scan_until = [&](std::size_t end) {
    scanner.feed(
        std::string_view{piece.text}.substr(scanned, end - scanned), [](auto) {}, [] {});
    scanned = end;
  };
  while (append_to(piece.text)) {
    auto const end = piece.text.rfind('\n') + 1;  // 0 where there is none
    auto const lines = std::string_view{piece.text}.substr(0, end);
    auto const has_quotes = lines.find('"') != std::string_view::npos;
    if (has_quotes || scanned > 0 || end == 0) scan_until(end == 0 ? piece.text.size() : end);
    if (scanner.problem()) break;
    if (end == 0 || !scanner.begins_line()) continue;
    line_number_ = scanned > 0 ? scanner.line_number() : line_number_ + line_count(lines);
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
