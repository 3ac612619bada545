// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

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
#include <raytrain/checkpoint/detail/store_names-inl.hpp>
#endif
