// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>

#include <raytrain/core/inline.hpp>
#include <raytrain/data/blocks_position.hpp>

namespace raytrain {

RAYTRAIN_INLINE auto BlocksPosition::begin_of_epoch(std::span<BlocksPosition const> positions) -> BlocksPosition {
  return {.epoch = std::ranges::min(positions, {}, &BlocksPosition::epoch).epoch};
}

RAYTRAIN_INLINE auto BlocksPosition::text_of_begin(Workers workers) const -> std::string {
  return fmt::format(
      "the {} workers of the checkpoint had not taken equally many blocks, and now there are {}: epoch {} begins "
      "anew, with blocks that were taken, too",
      workers.before, workers.now, epoch);
}

}  // namespace raytrain
