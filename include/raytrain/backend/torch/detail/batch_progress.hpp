// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include <raytrain/backend/torch/detail/accumulation_window.hpp>
#include <raytrain/backend/torch/detail/ranks_with_batch.hpp>
#include <raytrain/backend/torch/torch_shard.hpp>
#include <raytrain/core/shard_position.hpp>
#include <raytrain/core/shard_turn.hpp>
#include <raytrain/data/batch.hpp>

namespace raytrain::detail {

/// How far a worker is in its split datasets, for which shard it computes, in which window it accumulates, and
/// which ranks have a batch.
///
/// A program may take batches of several datasets side by side. The first of them in a step leads: its next batch is
/// the next turn. The same turn of another dataset changes nothing.
struct BatchProgress {
  ShardPosition position{};  ///< Behind the last batch, of whatever dataset.
  std::optional<ShardTurn> turn{};
  std::string leader{};  ///< The dataset whose batch began the turn.
  /// Of the last batch, of whatever dataset; 0 when the program has left that dataset's epoch.
  std::uint64_t samples_of_batch = 0;
  std::string dataset_of_batch{};
  std::set<std::string> in_last_batch{};  ///< Datasets of whose epoch the last batch was taken.
  std::set<std::string> ends_window{};    ///< Those of them since `accumulate` was called.
  AccumulationWindow window{};
  RanksWithBatch with_batch{};
  /// Before the first batch of each turn, and without a turn when the leader's epoch is over; may be empty.
  std::function<void(std::optional<ShardTurn>)> on_turn{};

  void take(std::string const& dataset, Batch const& batch) {
    position = batch.next_position();
    samples_of_batch = batch.size();
    dataset_of_batch = dataset;
    if (position.samples == 0) {
      in_last_batch.insert(dataset);
      ends_window.insert(dataset);
    } else {
      in_last_batch.erase(dataset);
    }
    auto const is_beside = turn && dataset != leader && turn->index == batch.turn().index && !is_over_;
    if (is_beside) return;
    turn = batch.turn();
    leader = dataset;
    is_over_ = false;
    if (on_turn) on_turn(turn);
  }

  /// The program has left a range, at its end or before it.
  void leave(std::string const& dataset) noexcept {
    in_last_batch.erase(dataset);
    ends_window.erase(dataset);
    if (dataset == dataset_of_batch) samples_of_batch = 0;
    if (dataset == leader) is_over_ = true;
  }

  void end(std::string const& dataset) {
    in_last_batch.erase(dataset);
    ends_window.erase(dataset);
    if (dataset == dataset_of_batch) samples_of_batch = 0;
    if (dataset != leader || is_over_) return;
    is_over_ = true;
    if (on_turn) on_turn(std::nullopt);
  }

 private:
  bool is_over_ = false;  ///< The leader's epoch.
};

/// Tells of one dataset's batches.
class BatchFollower final : public BatchListener {
 public:
  BatchFollower(std::shared_ptr<BatchProgress> progress, std::string dataset)
      : progress_{std::move(progress)}, dataset_{std::move(dataset)} {}

  void on_batch(Batch const& batch) override { progress_->take(dataset_, batch); }
  void on_end() override { progress_->end(dataset_); }
  void on_left() noexcept override { progress_->leave(dataset_); }

 private:
  std::shared_ptr<BatchProgress> progress_;
  std::string dataset_;
};

}  // namespace raytrain::detail
