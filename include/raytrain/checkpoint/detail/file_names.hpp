// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
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

/// Names in a directory of checkpoints: checkpoint_000012, and .staging-S-C-ID and .trash-S-N of start S.
namespace raytrain::detail {

inline constexpr std::string_view checkpoint_prefix = "checkpoint_";
inline constexpr std::string_view staging_prefix = ".staging-";
inline constexpr std::string_view trash_prefix = ".trash-";
/// In a staging folder, beside those of the ranks: the checkpoint while it is put together.
inline constexpr std::string_view merged_name = "merged";

/// What is not, or no longer, a checkpoint.
struct Leftover {
  std::uint64_t start{};
  std::uint64_t number{};  ///< The removed checkpoint's; for a staged one, which has none, its count in that start.
};

[[nodiscard]] auto checkpoint_name(std::uint64_t number) -> std::string;
[[nodiscard]] auto staging_name(Leftover leftover, std::string_view id) -> std::string;
[[nodiscard]] auto trash_name(Leftover leftover) -> std::string;

[[nodiscard]] auto parse_number(std::string_view digits) -> std::optional<std::uint64_t>;

/// The highest number that a checkpoint can have. A folder with a higher one is not taken for a checkpoint, so that the
/// number of the next one never overflows.
inline constexpr std::uint64_t last_checkpoint_number = 999'999'999'999'999;

/// Nothing for a name that is not exactly that of a checkpoint.
[[nodiscard]] auto parse_checkpoint(std::string_view name) -> std::optional<std::uint64_t>;

/// What tells a start from one with the same number in a folder that has taken the place of its own.
[[nodiscard]] auto is_start_id(std::string_view text) -> bool;

[[nodiscard]] auto parse_leftover(std::string_view name) -> std::optional<Leftover>;

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/checkpoint/detail/file_names-inl.hpp>
#endif
