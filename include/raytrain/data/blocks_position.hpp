// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <raytrain/message/fields.hpp>

namespace raytrain {

/// Where a training that goes over `DatasetBlocks` by itself stands in them: a value, to be kept in its checkpoints.
/// The beginning of epoch 3 is `BlocksPosition{.epoch = 3}`.
struct BlocksPosition {
  std::int64_t epoch = 0;    ///< Counted by the program, which goes over the blocks once in each.
  std::uint64_t blocks = 0;  ///< Of that epoch, that all workers together have taken where each takes as many.
  std::string source{};      ///< Of which blocks; empty at the beginning of an epoch.

  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(epoch), CEREAL_NVP(blocks), CEREAL_NVP(source));
  }

  friend auto operator==(BlocksPosition const&, BlocksPosition const&) -> bool = default;

  /// Where another number of workers begins that cannot go on at the positions of those before, one or more, since
  /// these had not taken equally many blocks: at the beginning of their epoch.
  [[nodiscard]] static auto begin_of_epoch(std::span<BlocksPosition const> positions) -> BlocksPosition;

  /// How many workers there were, and are.
  struct Workers {
    std::size_t before = 0;
    std::size_t now = 0;
  };

  /// Tells a person of it.
  [[nodiscard]] auto text_of_begin(Workers workers) const -> std::string;
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/data/blocks_position-inl.hpp>
#endif
