// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/config/checkpoint_config.hpp>
#include <raytrain/core/identifiers.hpp>

namespace raytrain {

/// What retention knows of a committed checkpoint.
struct ScoredCheckpoint {
  CheckpointNumber number{};    ///< The newest has the highest.
  std::optional<double> score;  ///< Value of `CheckpointConfig::score_attribute`; unset if there is none.
};

/// Number and score of each checkpoint, in the same order.
[[nodiscard]] auto scored(std::vector<Checkpoint> const& checkpoints, CheckpointConfig const& config)
    -> std::vector<ScoredCheckpoint>;

/// Numbers of the checkpoints that may go, oldest first; `checkpoints` in any order.
///
/// The best `num_to_keep` stay: by score, the newer of equals, unset and non-finite scores last; without a score
/// attribute the newest. The newest of all stays in any case, since a run goes on from it, so that one more than
/// `num_to_keep` may be kept, as Ray Train does.
[[nodiscard]] auto checkpoints_to_delete(std::vector<ScoredCheckpoint> checkpoints, CheckpointConfig const& config)
    -> std::vector<CheckpointNumber>;

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/checkpoint/retention-inl.hpp>
#endif
