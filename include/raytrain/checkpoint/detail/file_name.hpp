// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include <raytrain/message/utf8.hpp>

namespace raytrain::detail {

inline constexpr std::string_view manifest_name = "manifest.json";

[[nodiscard]] constexpr auto is_control(char letter) noexcept -> bool {
  return static_cast<unsigned char>(letter) < 0x20U || letter == 0x7F;
}

/// The name as a message can hold it.
[[nodiscard]] inline auto shown_name(std::string_view name) -> std::string {
  auto shown = to_utf8(name);
  std::ranges::replace_if(shown, is_control, '?');
  return shown;
}

/// Why a name cannot be that of a checkpoint's file; nothing if it can.
[[nodiscard]] inline auto file_name_problem(std::string_view name) -> std::optional<std::string> {
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

/// The name among `taken` that cannot lie in one directory beside `name`: the same one, or one that is a folder of the
/// other; null if there is none.
template <class Value>
[[nodiscard]] auto find_clash(std::map<std::string, Value> const& taken, std::string const& name) ->
    typename std::map<std::string, Value>::value_type const* {
  if (auto const same = taken.find(name); same != taken.end()) return &*same;
  for (auto slash = name.find('/'); slash != std::string::npos; slash = name.find('/', slash + 1)) {
    if (auto const folder = taken.find(name.substr(0, slash)); folder != taken.end()) return &*folder;
  }
  auto const below = taken.lower_bound(name + "/");
  return below != taken.end() && below->first.starts_with(name + "/") ? &*below : nullptr;
}

}  // namespace raytrain::detail
