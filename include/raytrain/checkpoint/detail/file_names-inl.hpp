// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include <raytrain/checkpoint/detail/file_names.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/utf8.hpp>

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
