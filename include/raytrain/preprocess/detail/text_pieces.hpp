// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string_view>

namespace raytrain::detail {

/// Calls `work` with what lies between delimiters, which are not empty; empty pieces are left out.
template <class Work>
void for_each_piece(std::string_view text, std::string_view delimiter, Work const& work) {
  while (!text.empty()) {
    auto const end = std::min(text.find(delimiter), text.size());
    if (end > 0) work(text.substr(0, end));
    text.remove_prefix(std::min(end + delimiter.size(), text.size()));
  }
}

/// Calls `work` with what lies between blanks: spaces, tabs, and the ends of lines and pages of ASCII. Case and
/// punctuation stay as they are. The one rule of all preprocessors that take words of texts.
template <class Work>
void for_each_token(std::string_view text, Work const& work) {
  constexpr std::string_view blanks = " \t\n\v\f\r";
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(blanks), text.size()));
    if (text.empty()) return;
    auto const end = std::min(text.find_first_of(blanks), text.size());
    work(text.substr(0, end));
    text.remove_prefix(end);
  }
}

}  // namespace raytrain::detail
