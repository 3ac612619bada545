// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>

namespace raytrain {

/// Where a training stands in its data; says nothing of the number of workers. Two integers, to be stored as such.
struct ShardPosition {
  std::int64_t epoch = 0;
  std::uint64_t samples = 0;  ///< Already handed out in that epoch, to all workers together.
  friend constexpr auto operator<=>(ShardPosition const&, ShardPosition const&) = default;
};

/// For which of the run's shards a worker computes a batch. A step has one batch of each shard. With
/// `ScalingConfig::virtual_shards` there are as many, whatever the number of workers, and each worker has several turns
/// in a step: in turn t rank r of w workers computes for shard t * w + r. Otherwise each worker is one shard.
///
/// Source: the virtual workers of EasyScale (M. Li et al., SC 2023), in an order in which each turn's sum goes on from
/// that of the turn before.
struct ShardTurn {
  std::uint32_t index = 0;   ///< Of this worker's turns in the step, from 0.
  std::uint32_t count = 1;   ///< Turns of a step, as many on every worker.
  std::uint32_t shard = 0;   ///< From 0.
  std::uint32_t shards = 1;  ///< Of the run.
  /// No shard is left for this worker: it computes with the others, and what comes of it does not count.
  bool is_padding = false;

  [[nodiscard]] constexpr auto ends_step() const noexcept -> bool { return index + 1 == count; }
  friend constexpr auto operator==(ShardTurn const&, ShardTurn const&) -> bool = default;
};

}  // namespace raytrain
