// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace raytrain::detail {

/// Whole lines of a file, which can be read without those before them.
struct PieceOfLines {
  std::string text{};
  std::uint64_t line_number = 1;  ///< Of the first one.
};

/// Whole lines, and how many rows they are.
struct PieceOfRows : PieceOfLines {
  std::uint64_t first_row = 0;          ///< Its number in the file.
  std::optional<std::uint64_t> rows{};  ///< None where that is not known before they are read.
};

/// Takes the first line off a text, without the line feed, or the carriage return and line feed, at its end.
[[nodiscard]] inline auto take_line(std::string_view& text) -> std::string_view {
  auto line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(line.size() + 1, text.size()));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

/// The lines of a piece, one after the other. The piece stays where it is meanwhile.
class LinesOfPiece {
 public:
  explicit LinesOfPiece(PieceOfLines const& piece) : text_{piece.text}, number_{piece.line_number - 1} {}

  /// None at the end.
  [[nodiscard]] auto next() -> std::optional<std::string_view> {
    if (text_.empty()) return std::nullopt;
    ++number_;
    return take_line(text_);
  }

  /// Of the line that `next` gave last.
  [[nodiscard]] auto number() const noexcept -> std::uint64_t { return number_; }

 private:
  std::string_view text_;
  std::uint64_t number_;
};

}  // namespace raytrain::detail
