// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace raytrain::detail {

inline constexpr std::string_view manifest_name = "manifest.json";

[[nodiscard]] constexpr auto is_control(char letter) noexcept -> bool {
  return static_cast<unsigned char>(letter) < 0x20U || letter == 0x7F;
}

/// The name as a message can hold it.
[[nodiscard]] auto shown_name(std::string_view name) -> std::string;

/// Why a name cannot be that of a checkpoint's file; nothing if it can.
[[nodiscard]] auto file_name_problem(std::string_view name) -> std::optional<std::string>;

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

#ifndef RAYTRAIN_COMPILED
#include <raytrain/checkpoint/detail/file_name-inl.hpp>
#endif
