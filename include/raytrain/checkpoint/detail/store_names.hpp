// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include <raytrain/core/rank.hpp>

/// Names in a directory of checkpoints: checkpoint_000012, and .staging-G-C-ID and .trash-G-N of generation G.
namespace raytrain::detail {

inline constexpr std::string_view checkpoint_prefix = "checkpoint_";
inline constexpr std::string_view staging_prefix = ".staging-";
inline constexpr std::string_view trash_prefix = ".trash-";
/// In a staging folder, beside those of the ranks: the checkpoint while it is put together.
inline constexpr std::string_view merged_name = "merged";

/// What is not, or no longer, a checkpoint.
struct Leftover {
  std::uint64_t generation{};
  std::uint64_t number{};  ///< The removed checkpoint's; for a staged one, which has none, its count in that start.
};

[[nodiscard]] inline auto checkpoint_name(std::uint64_t number) -> std::string {
  return fmt::format("{}{:06}", checkpoint_prefix, number);
}
[[nodiscard]] inline auto staging_name(Leftover leftover, std::string_view id) -> std::string {
  return fmt::format("{}{}-{}{}{}", staging_prefix, leftover.generation, leftover.number, id.empty() ? "" : "-", id);
}
[[nodiscard]] inline auto trash_name(Leftover leftover) -> std::string {
  return fmt::format("{}{}-{}", trash_prefix, leftover.generation, leftover.number);
}
[[nodiscard]] inline auto rank_name(Rank rank) -> std::string { return fmt::format("rank_{:04}", rank.value); }

[[nodiscard]] inline auto parse_number(std::string_view digits) -> std::optional<std::uint64_t> {
  std::uint64_t number = 0;
  auto const [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (problem != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  return number;
}

/// The highest number that a checkpoint can have. A folder with a higher one is not taken for a checkpoint, so that the
/// number of the next one never overflows.
inline constexpr std::uint64_t last_checkpoint_number = 999'999'999'999'999;

/// Nothing for a name that is not exactly that of a checkpoint.
[[nodiscard]] inline auto parse_checkpoint(std::string_view name) -> std::optional<std::uint64_t> {
  if (!name.starts_with(checkpoint_prefix)) return std::nullopt;
  auto const number = parse_number(name.substr(checkpoint_prefix.size()));
  return number && *number > 0 && *number <= last_checkpoint_number && checkpoint_name(*number) == name ? number
                                                                                                        : std::nullopt;
}

/// What tells a start from one with the same number in a folder that has taken the place of its own.
[[nodiscard]] inline auto is_start_id(std::string_view text) -> bool {
  return text.size() == 8 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

[[nodiscard]] inline auto parse_leftover(std::string_view name) -> std::optional<Leftover> {
  for (auto const prefix : {staging_prefix, trash_prefix}) {
    if (!name.starts_with(prefix)) continue;
    auto const numbers = name.substr(prefix.size());
    auto const dash = numbers.find('-');
    if (dash == std::string_view::npos) return std::nullopt;
    auto const generation = parse_number(numbers.substr(0, dash));
    auto const last = numbers.substr(dash + 1);
    auto const end = prefix == staging_prefix ? std::min(last.find('-'), last.size()) : last.size();
    auto const id = last.substr(end);
    auto const number = parse_number(last.substr(0, end));
    if (generation && number && (id.empty() || is_start_id(id.substr(1)))) return Leftover{*generation, *number};
  }
  return std::nullopt;
}

}  // namespace raytrain::detail
