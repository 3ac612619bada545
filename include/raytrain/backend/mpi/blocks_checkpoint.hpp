// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

#include <raytrain/backend/mpi/array_checkpoint.hpp>
#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/checkpoint/checkpoint_draft.hpp>
#include <raytrain/checkpoint/rank_folder.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/data/blocks_position.hpp>
#include <raytrain/message/json.hpp>

namespace raytrain {

namespace detail {

/// In the rank's folder.
inline constexpr auto position_file = "blocks_position.json";

/// Of each rank that has saved the checkpoint; none where it has no positions.
///
/// Errors: those of `Checkpoint::read`; `invalid_data` for a file of something else.
[[nodiscard]] inline auto read_positions(Checkpoint const& checkpoint) -> std::vector<BlocksPosition> {
  std::vector<BlocksPosition> positions;
  for (std::uint32_t rank = 0; rank < checkpoint.world_size().value; ++rank) {
    auto const file = rank_folder_name(Rank{rank}) + "/" + position_file;
    if (rank == 0 && !checkpoint.contains(file)) break;
    auto const content = checkpoint.read(file);
    positions.push_back(read_json<BlocksPosition>(text_of(content), checkpoint.location() + "/" + file));
  }
  return positions;
}

}  // namespace detail

/// Arrays that are the same on every rank, as `save(arrays)` has them, and where each rank stands in its blocks, for
/// `MpiContext::restore`: blocks_position.json in the rank's folder.
[[nodiscard]] inline auto save(BlocksPosition const& position, std::initializer_list<ConstNamedArray> arrays)
    -> CheckpointDraft {
  auto draft = save(arrays);
  auto const text = write_json(position);
  auto const bytes = bytes_of(text);
  draft.add_own(detail::position_file, Bytes{bytes.begin(), bytes.end()});
  return draft;
}

}  // namespace raytrain
