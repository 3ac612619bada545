// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include <raytrain/backend/torch/torch_shard.hpp>
#include <raytrain/collective/collective.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/shard_position.hpp>
#include <raytrain/data/batch.hpp>
#include <raytrain/data/batch_range.hpp>

namespace raytrain::detail {

/// Batches of this worker whose gradients are averaged together, as `TorchContext::accumulate` counts them.
///
/// Each batch counts by its samples, so that the gradient is that of the mean over all samples of the window, as with
/// one large batch.
class AccumulationWindow {
 public:
  /// The next batch: of a window of so many `batches`, which it ends earlier where `ends`. `samples`: of the batch; 0
  /// where nobody knows, and then as many as the batch before. True when it is the window's last one.
  auto add(int batches, std::uint64_t samples, bool ends) noexcept -> bool {
    if (!is_open()) {
      ++number_;
      length_ = batches;
      count_ = 0;
      all_samples_ = 0;
    }
    if (samples > 0) samples_ = static_cast<double>(samples);
    all_samples_ += samples_;
    ++count_;
    is_last_ = ends || count_ == length_;
    return is_last_;
  }

  /// From 1; 0 before any.
  [[nodiscard]] auto number() const noexcept -> std::uint64_t { return number_; }
  /// Batches that it is to have.
  [[nodiscard]] auto length() const noexcept -> int { return length_; }
  /// Batches so far, the one at hand included.
  [[nodiscard]] auto count() const noexcept -> int { return count_; }

  /// The batch at hand is not its last one.
  [[nodiscard]] auto is_open() const noexcept -> bool { return !is_last_; }
  /// It is not the batch at hand alone.
  [[nodiscard]] auto has_several() const noexcept -> bool { return is_open() || count_ > 1; }

  /// Of the batch at hand.
  [[nodiscard]] auto samples() const noexcept -> double { return samples_; }
  /// Of all batches so far.
  [[nodiscard]] auto all_samples() const noexcept -> double { return all_samples_; }

 private:
  std::uint64_t number_ = 0;
  int length_ = 1;
  int count_ = 0;
  double samples_ = 1;
  double all_samples_ = 0;
  bool is_last_ = true;
};

/// Which ranks have a batch in the step at hand, as `TorchContext::join` asks all of them.
///
/// A rank's gradients times `factor`, averaged over all ranks, are averages over the ranks that have a batch. So what a
/// `GradientExchange` keeps for the next step is in the same measure in each.
class RanksWithBatch {
 public:
  /// Before `ask`. Errors: `invalid_call` with virtual shards, and within a window of several batches.
  static void check_may_ask(std::uint32_t virtual_shards, AccumulationWindow const& window);

  /// Whether any rank has one. A group operation.
  ///
  /// Errors: of `Collective`.
  auto ask(Collective& collective, bool has_batch) -> bool;

  /// Whether ranks have been asked, and one has a batch.
  [[nodiscard]] auto is_known() const noexcept -> bool { return own_.has_value(); }
  /// World size / ranks with a batch; 1 where nobody has asked, and when no rank had one.
  [[nodiscard]] auto factor() const noexcept -> double { return factor_; }
  /// The lowest rank with a batch; rank 0 where nobody has asked.
  [[nodiscard]] auto first() const noexcept -> Rank { return first_; }

  /// Before a backward of a model. Errors: `invalid_call` where this rank has said that it has no batch.
  void check_backward(std::uint16_t model) const;
  /// Before the backward of a rank without a batch. Errors: `invalid_call` unless this rank has said that it has none.
  void check_shadow_backward() const;

 private:
  std::uint32_t calls_ = 0;
  std::optional<bool> own_;  ///< Whether this rank has one; none where nobody has asked.
  double factor_ = 1;
  Rank first_{};
};

/// The step that a worker is in: behind which batch of its split datasets, for which virtual shard it computes, in
/// which window it accumulates, and which ranks have a batch.
///
/// A program may take batches of several datasets side by side. The first of them in a step leads: its next batch is
/// the next turn. The same turn of another dataset changes nothing.
struct WorkerStep {
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

  /// The program has a next batch of that dataset, by that shard.
  void begin_batch(std::string const& dataset, Batch const& batch, BatchListener const* of_shard) {
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
  void leave_range(std::string const& dataset, BatchListener const* of_shard) noexcept {
    ends_window.erase(of_shard);
    if (dataset == dataset_of_batch) samples_of_batch = 0;
    if (dataset == leader) is_over_ = true;
  }

  /// All batches of a range were taken, and the program is done with the last one.
  void end_range(std::string const& dataset, BatchListener const* of_shard) {
    ends_window.erase(of_shard);
    if (dataset == dataset_of_batch) samples_of_batch = 0;
    if (dataset != leader || is_over_) return;
    is_over_ = true;
    if (on_turn) on_turn(std::nullopt);
  }

 private:
  bool is_over_ = false;  ///< The leader's epoch.
};

/// Follows the batches of one shard, and tells the worker's step of them where its dataset is split.
class BatchFollower final : public BatchListener {
 public:
  /// `worker_step`: null for a shard of a dataset that is not split.
  BatchFollower(std::shared_ptr<WorkerStep> worker_step, std::string dataset,
                std::shared_ptr<ShardProgress const> of_shard)
      : worker_step_{std::move(worker_step)}, dataset_{std::move(dataset)}, of_shard_{std::move(of_shard)} {}

  [[nodiscard]] auto dataset() const noexcept -> std::string const& { return dataset_; }
  [[nodiscard]] auto of_shard() const noexcept -> std::shared_ptr<ShardProgress const> const& { return of_shard_; }
  /// Whether the last batch of an epoch was taken, and the program is not done with it.
  [[nodiscard]] auto is_in_last_batch() const noexcept -> bool { return is_in_last_batch_; }

  void on_batch(Batch const& batch) override {
    is_in_last_batch_ = batch.next_position().samples == 0;
    if (worker_step_) worker_step_->begin_batch(dataset_, batch, this);
  }
  void on_end() override {
    is_in_last_batch_ = false;
    if (worker_step_) worker_step_->end_range(dataset_, this);
  }
  void on_left() noexcept override {
    is_in_last_batch_ = false;
    if (worker_step_) worker_step_->leave_range(dataset_, this);
  }

 private:
  std::shared_ptr<WorkerStep> worker_step_;
  std::string dataset_;
  std::shared_ptr<ShardProgress const> of_shard_;
  bool is_in_last_batch_ = false;
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/detail/worker_step-inl.hpp>
#endif
