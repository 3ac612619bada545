// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include <raytrain/core/inline.hpp>
#include <raytrain/launch/detail/shell_text.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE auto shell_word(std::string_view text) -> std::string {
  std::string word{"'"};
  for (auto const byte : text) word += byte == '\'' ? "'\\''" : std::string(1, byte);
  return word + "'";
}

}  // namespace raytrain::detail
