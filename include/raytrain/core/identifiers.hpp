// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <utility>

namespace raytrain {

/// Position of a worker in its world, counted from 0.
struct Rank {
  std::uint32_t value{};
  friend constexpr auto operator<=>(Rank, Rank) = default;
};

/// Number of workers that train together; at least 1 in a running world.
struct WorldSize {
  std::uint32_t value{};
  friend constexpr auto operator<=>(WorldSize, WorldSize) = default;
};

/// Which launch of the workers within one `fit()`, from 1: another one follows when a worker fails, as `FailureConfig`
/// says, or when their number is changed. The start of the run in its folder is another number, `RunInfo::start`.
struct Attempt {
  std::uint64_t value = 1;
  friend constexpr auto operator<=>(Attempt, Attempt) = default;
};

/// Position of a checkpoint among those that a rank has reported in one `fit()`, counted from 0. The attempts go on
/// counting, so that what one has left is not taken for the next one's.
struct CheckpointOrdinal {
  std::uint64_t value{};
  friend constexpr auto operator<=>(CheckpointOrdinal, CheckpointOrdinal) = default;
};

/// Number of a checkpoint in its store, from 1: 12 for checkpoint_000012.
struct CheckpointNumber {
  std::uint64_t value{};
  friend constexpr auto operator<=>(CheckpointNumber, CheckpointNumber) = default;
};

/// One start of a run, the same on all its ranks.
struct StartId {
  StartId(std::uint64_t start)  // NOLINT(google-explicit-constructor): a number will do where no folder is moved
      : number{start} {}
  StartId(std::uint64_t start, std::string start_id) : number{start}, id{std::move(start_id)} {}

  std::uint64_t number;  ///< From 1.
  /// Eight hexadecimal digits of this start alone: another one with the same number may train in a folder that has
  /// taken the place of its own.
  std::string id{};
};

}  // namespace raytrain
