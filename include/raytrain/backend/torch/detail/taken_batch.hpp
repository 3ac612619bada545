// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>

#include <raytrain/backend/torch/torch_shard.hpp>
#include <raytrain/core/shard_position.hpp>
#include <raytrain/core/shard_turn.hpp>
#include <raytrain/data/batch.hpp>

namespace raytrain::detail {

/// How far a worker is in its split datasets, and for which shard it computes.
class TakenBatch final : public BatchListener {
 public:
  ShardPosition position{};
  std::optional<ShardTurn> turn{};  ///< Of the last batch; none before the first one.
  /// Before each batch, and without a turn after the last one of an epoch; may be empty.
  std::function<void(std::optional<ShardTurn>)> on_turn{};

  void on_batch(Batch const& batch) override {
    position = batch.next_position();
    turn = batch.turn();
    if (on_turn) on_turn(turn);
  }
  void on_end() override {
    if (on_turn) on_turn(std::nullopt);
  }
};

}  // namespace raytrain::detail
