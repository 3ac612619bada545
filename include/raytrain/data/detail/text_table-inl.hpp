// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <raytrain/core/inline.hpp>
#include <raytrain/data/detail/text_table.hpp>

namespace raytrain::detail {

/// Characters of UTF-8.
[[nodiscard]] RAYTRAIN_INLINE auto text_width(std::string_view text) -> std::size_t {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; }));
}

RAYTRAIN_INLINE auto text_table(std::vector<std::vector<std::string>> lines, bool labels) -> std::string {
  std::vector<std::size_t> widths;
  for (auto& line : lines) {
    widths.resize(std::max(widths.size(), line.size()));
    for (std::size_t i = 0; i < line.size(); ++i) {
      std::ranges::replace_if(
          line[i], [](char c) { return static_cast<unsigned char>(c) < 0x20U || c == '\x7f'; }, '?');
      widths[i] = std::max(widths[i], text_width(line[i]));
    }
  }
  std::string text;
  for (auto const& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) {
      std::string const padding(widths[i] - text_width(line[i]), ' ');
      auto const is_label = labels && i == 0;
      text += (i == 0 ? "" : "  ") + (is_label ? line[i] + padding : padding + line[i]);
    }
    text += '\n';
  }
  return text;
}

}  // namespace raytrain::detail
