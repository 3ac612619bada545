// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace raytrain::detail {

/// Makes a file that this user alone can read. Errors: `io`.
void write_privately(std::filesystem::path const& path, std::string const& text);

/// What the ranks of a job are told that a supervisor has started (`Launch::mpirun`): in a file, since no launcher of
/// jobs hands on every variable to every host, and other users of a host may read a command.
struct RankStart {
  std::uint32_t fit = 1;                 ///< Which `fit()` of the program that has a supervisor it is for, from 1.
  std::string token;                     ///< Of the supervisor's `ControlServer`, and so are
  std::vector<std::string> addresses{};  ///< these.
  std::string results{};                 ///< A file with what the calls of `fit()` before have given; empty: none.

  /// Names the file.
  static constexpr char const* variable = "RAYTRAIN_RANK_START";

  /// Makes the file, which this user alone can read. Errors: `io`.
  void write(std::filesystem::path const& path) const;

  /// Errors: `io` when this process does not see the file, and for what `write` has not made.
  [[nodiscard]] static auto read(std::filesystem::path const& path) -> RankStart;
};

/// Of this process; none where no supervisor has started it. The variable is gone from its environment, so that no
/// program that it starts takes it for its own.
[[nodiscard]] auto rank_start_file() -> std::optional<std::string> const&;

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/launch/rank_start-inl.hpp>
#endif
