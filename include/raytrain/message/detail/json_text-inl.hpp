// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <charconv>
#include <cmath>
#include <string>
#include <string_view>

#include <raytrain/core/inline.hpp>
#include <raytrain/core/utf8.hpp>
#include <raytrain/message/detail/json_text.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE void append_json_string(std::string& out, std::string_view text) {
  static constexpr std::string_view digits = "0123456789abcdef";
  out += '"';
  while (!text.empty()) {
    auto const length = utf8_sequence_length(text);
    auto const c = text.front();
    if (length == 0) {
      out += "\xEF\xBF\xBD";
    } else if (length > 1) {
      out += text.substr(0, length);
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (static_cast<unsigned char>(c) < 0x20U || c == 0x7F) {
      out += "\\u00";
      out += digits[static_cast<unsigned char>(c) >> 4U];
      out += digits[static_cast<unsigned char>(c) & 0xFU];
    } else {
      out += c;
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  out += '"';
}

RAYTRAIN_INLINE void append_json_number(std::string& out, double number) {
  if (std::isnan(number)) {
    out += "\"NaN\"";
  } else if (std::isinf(number)) {
    out += number > 0 ? "\"Infinity\"" : "\"-Infinity\"";
  } else {
    std::array<char, 32> buffer{};
    auto const end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number).ptr;
    std::string_view const digits{buffer.data(), end};
    out += digits;
    if (digits.find_first_of(".e") == std::string_view::npos) out += ".0";
  }
}

}  // namespace raytrain::detail
