// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include <raytrain/checkpoint/detail/file_name.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/message/utf8.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE auto shown_name(std::string_view name) -> std::string {
  auto shown = to_utf8(name);
  std::ranges::replace_if(shown, is_control, '?');
  return shown;
}

RAYTRAIN_INLINE auto file_name_problem(std::string_view name) -> std::optional<std::string> {
  constexpr std::size_t longest_name = 1024;
  constexpr std::size_t longest_part = 255;
  if (name.empty()) return "is empty";
  if (name.size() > longest_name) return "is longer than " + std::to_string(longest_name) + " bytes";
  if (name.substr(0, name.find('/')) == manifest_name) return "is the name of raytrain's own list of files";
  if (!is_utf8(name)) return "is not UTF-8";
  if (std::ranges::any_of(name, is_control)) return "has a control character";
  for (auto rest = name;;) {
    auto const part = rest.substr(0, rest.find('/'));
    if (part.empty()) return name.starts_with('/') ? "is absolute" : "has an empty part";
    if (part == "." || part == "..") return "has the part '" + std::string{part} + "'";
    if (part.size() > longest_part) return "has a part longer than " + std::to_string(longest_part) + " bytes";
    if (part.size() == rest.size()) return std::nullopt;
    rest.remove_prefix(part.size() + 1);
  }
}

}  // namespace raytrain::detail
