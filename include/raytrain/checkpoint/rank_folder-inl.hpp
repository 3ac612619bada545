// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include <raytrain/checkpoint/detail/file_names.hpp>
#include <raytrain/checkpoint/rank_folder.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain {

RAYTRAIN_INLINE auto rank_folder_name(Rank rank) -> std::string { return fmt::format("rank_{:04}", rank.value); }

RAYTRAIN_INLINE auto detail::take_rank_folder(std::string_view& name) -> std::optional<Rank> {
  auto const folder = name.substr(0, name.find('/'));
  constexpr std::string_view prefix = "rank_";
  if (folder.size() == name.size() || !folder.starts_with(prefix)) return std::nullopt;
  auto const number = parse_number(folder.substr(prefix.size()));
  if (!number || *number > std::numeric_limits<std::uint32_t>::max()) return std::nullopt;
  Rank const rank{static_cast<std::uint32_t>(*number)};
  if (rank_folder_name(rank) != folder) return std::nullopt;
  name.remove_prefix(folder.size() + 1);
  return rank;
}

}  // namespace raytrain
