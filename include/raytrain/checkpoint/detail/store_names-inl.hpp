// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include <raytrain/checkpoint/detail/store_names.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE auto checkpoint_name(std::uint64_t number) -> std::string {
  return fmt::format("{}{:06}", checkpoint_prefix, number);
}

RAYTRAIN_INLINE auto staging_name(Leftover leftover, std::string_view id) -> std::string {
  return fmt::format("{}{}-{}{}{}", staging_prefix, leftover.start, leftover.number, id.empty() ? "" : "-", id);
}

RAYTRAIN_INLINE auto trash_name(Leftover leftover) -> std::string {
  return fmt::format("{}{}-{}", trash_prefix, leftover.start, leftover.number);
}

RAYTRAIN_INLINE auto parse_number(std::string_view digits) -> std::optional<std::uint64_t> {
  std::uint64_t number = 0;
  auto const [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (problem != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  return number;
}

RAYTRAIN_INLINE auto parse_checkpoint(std::string_view name) -> std::optional<std::uint64_t> {
  if (!name.starts_with(checkpoint_prefix)) return std::nullopt;
  auto const number = parse_number(name.substr(checkpoint_prefix.size()));
  return number && *number > 0 && *number <= last_checkpoint_number && checkpoint_name(*number) == name ? number
                                                                                                        : std::nullopt;
}

RAYTRAIN_INLINE auto is_start_id(std::string_view text) -> bool {
  return text.size() == 8 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

RAYTRAIN_INLINE auto parse_leftover(std::string_view name) -> std::optional<Leftover> {
  for (auto const prefix : {staging_prefix, trash_prefix}) {
    if (!name.starts_with(prefix)) continue;
    auto const numbers = name.substr(prefix.size());
    auto const dash = numbers.find('-');
    if (dash == std::string_view::npos) return std::nullopt;
    auto const start = parse_number(numbers.substr(0, dash));
    auto const last = numbers.substr(dash + 1);
    auto const end = prefix == staging_prefix ? std::min(last.find('-'), last.size()) : last.size();
    auto const id = last.substr(end);
    auto const number = parse_number(last.substr(0, end));
    if (start && number && (id.empty() || is_start_id(id.substr(1)))) return Leftover{*start, *number};
  }
  return std::nullopt;
}

}  // namespace raytrain::detail
