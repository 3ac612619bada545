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
#include <raytrain/data/batch.hpp>
#include <raytrain/data/batch_range.hpp>

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
  /// Of split datasets' shards, of whose epoch the last batch was taken since `accumulate` was called.
  std::set<BatchListener const*> ends_window{};
  AccumulationWindow window{};
  RanksWithBatch with_batch{};
  /// Before the first batch of each turn, and without a turn when the leader's epoch is over; may be empty.
  std::function<void(std::optional<ShardTurn>)> on_turn{};

  void take(std::string const& dataset, Batch const& batch, BatchListener const* of_shard) {
    position = batch.next_position();
    samples_of_batch = batch.size();
    dataset_of_batch = dataset;
    if (position.samples == 0) ends_window.insert(of_shard);
    auto const is_beside = turn && dataset != leader && turn->index == batch.turn().index && !is_over_;
    if (is_beside) return;
    turn = batch.turn();
    leader = dataset;
    is_over_ = false;
    if (on_turn) on_turn(turn);
  }

  /// The program has left a range, at its end or before it.
  void leave(std::string const& dataset, BatchListener const* of_shard) noexcept {
    ends_window.erase(of_shard);
    if (dataset == dataset_of_batch) samples_of_batch = 0;
    if (dataset == leader) is_over_ = true;
  }

  void end(std::string const& dataset, BatchListener const* of_shard) {
    ends_window.erase(of_shard);
    if (dataset == dataset_of_batch) samples_of_batch = 0;
    if (dataset != leader || is_over_) return;
    is_over_ = true;
    if (on_turn) on_turn(std::nullopt);
  }

 private:
  bool is_over_ = false;  ///< The leader's epoch.
};

/// Follows the batches of one shard, and tells of them where its dataset is split.
class BatchFollower final : public BatchListener {
 public:
  /// `progress`: null for a shard of a dataset that is not split.
  BatchFollower(std::shared_ptr<BatchProgress> progress, std::string dataset,
                std::shared_ptr<ShardProgress const> of_shard)
      : progress_{std::move(progress)}, dataset_{std::move(dataset)}, of_shard_{std::move(of_shard)} {}

  [[nodiscard]] auto dataset() const noexcept -> std::string const& { return dataset_; }
  [[nodiscard]] auto of_shard() const noexcept -> std::shared_ptr<ShardProgress const> const& { return of_shard_; }
  /// Whether the last batch of an epoch was taken, and the program is not done with it.
  [[nodiscard]] auto is_in_last_batch() const noexcept -> bool { return is_in_last_batch_; }

  void on_batch(Batch const& batch) override {
    is_in_last_batch_ = batch.next_position().samples == 0;
    if (progress_) progress_->take(dataset_, batch, this);
  }
  void on_end() override {
    is_in_last_batch_ = false;
    if (progress_) progress_->end(dataset_, this);
  }
  void on_left() noexcept override {
    is_in_last_batch_ = false;
    if (progress_) progress_->leave(dataset_, this);
  }

 private:
  std::shared_ptr<BatchProgress> progress_;
  std::string dataset_;
  std::shared_ptr<ShardProgress const> of_shard_;
  bool is_in_last_batch_ = false;
};

}  // namespace raytrain::detail
