// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <raytrain/core/inline.hpp>
#include <raytrain/train/detail/config_text.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE auto quoted_text(std::string_view text) -> std::string { return fmt::format("'{}'", text); }

RAYTRAIN_INLINE auto joined_texts(std::vector<std::string> const& texts) -> std::string {
  return fmt::format("{{{}}}", fmt::join(texts, ", "));
}

RAYTRAIN_INLINE auto joined_sorted_texts(std::vector<std::string> texts) -> std::string {
  std::ranges::sort(texts);
  return joined_texts(texts);
}

}  // namespace raytrain::detail
