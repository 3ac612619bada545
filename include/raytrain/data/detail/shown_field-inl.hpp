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
      result, [](char c) { return (c >= 0 && c < ' ') || c == '\x7f'; }, '?');
  return to_utf8(result);
}

}  // namespace raytrain::detail
