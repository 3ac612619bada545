// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <charconv>
#include <concepts>
#include <string>
#include <string_view>

namespace raytrain::detail {

/// Appends a JSON string. Control characters are escaped, bytes that are not UTF-8 become U+FFFD.
void append_json_string(std::string& out, std::string_view text);

template <std::integral I>
void append_json_number(std::string& out, I number) {
  std::array<char, 24> buffer{};
  auto const end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number).ptr;
  out.append(buffer.data(), end);
}

/// Appends the shortest text that reads back as the same double, always with a point or an exponent.
///
/// Source: proto3's JSON mapping for the texts of NaN and the infinities.
void append_json_number(std::string& out, double number);

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/message/detail/json_text-inl.hpp>
#endif
