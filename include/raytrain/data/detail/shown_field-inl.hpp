// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

#include <raytrain/core/inline.hpp>
#include <raytrain/core/utf8.hpp>
#include <raytrain/data/detail/shown_field.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE auto shown_field(std::string_view text) -> std::string {
  constexpr std::size_t shown = 40;
  std::string result{text.substr(0, shown)};
  std::ranges::replace_if(
      result, [](char c) { return static_cast<unsigned char>(c) < 0x20U || c == '\x7f'; }, '?');
  return to_utf8(result);
}

}  // namespace raytrain::detail
