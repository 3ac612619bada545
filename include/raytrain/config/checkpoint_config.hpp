// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace raytrain {

/// Which end of a score is the better one.
enum class ScoreOrder : std::uint8_t { max, min };

/// When `report` with a checkpoint returns.
enum class CheckpointMode : std::uint8_t {
  async,  ///< As soon as the state is copied; it is written while training goes on.
  sync,   ///< After the checkpoint is committed.
};

class CheckpointStore;

/// Makes the store of the run in a folder, in each process of the job. What it throws ends `fit()`.
using MakeCheckpointStore = std::function<std::shared_ptr<CheckpointStore>(std::filesystem::path const& run_path)>;

/// Which checkpoints stay, where they lie, and when a report returns.
struct CheckpointConfig {
  /// At least 1. So many of the best ones stay, and the newest beside them; unset: all. While the disk is busy about 5
  /// more wait to be deleted.
  std::optional<int> num_to_keep{};
  std::string score_attribute{};             ///< Metric that ranks checkpoints; empty: the newest rank highest.
  ScoreOrder score_order = ScoreOrder::max;  ///< Whether a high or a low score is kept.
  /// Whether a score that is NaN or infinite ends the run with an error, and its checkpoint is not kept. Else it is
  /// warned of; such a checkpoint is never the best.
  bool fail_on_non_finite_score = false;
  CheckpointMode mode = CheckpointMode::async;
  /// Unset: a `DirectoryStore` in the run's folder. The same in every process: they must see the same checkpoints.
  MakeCheckpointStore store{};

  /// Errors: `invalid_config`, naming the field, its value and what to write instead.
  void validate() const;
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/config/checkpoint_config-inl.hpp>
#endif
