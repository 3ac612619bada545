// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include <raytrain/core/shard_position.hpp>
#include <raytrain/data/batch_range.hpp>

namespace raytrain {

/// What a worker has taken of each dataset, in which batches and in which order. Its checkpoints keep it for whoever
/// goes on from them.
///
/// Threads: every function from any thread.
class TakenData {
 public:
  /// By the dataset's name.
  struct State {
    std::map<std::string, std::uint64_t> batch_sizes{};
    std::map<std::string, ShardPosition> positions{};
    std::map<std::string, std::string> orders{};  ///< `BatchOptions::order` of the position's epoch, where it is known.
  };

  using ShardProgressPointer = std::shared_ptr<ShardProgress const>;

  /// The worker has made a shard of the dataset.
  void add_shard(std::string const& dataset, ShardProgressPointer progress, bool is_split);

  /// From now on the position is this shard's. Another one takes its place only where it begins at the same place or
  /// behind it, as one with which the training goes on, and not at the first row, as one that measures an accuracy.
  void pin(std::string const& dataset, ShardProgressPointer progress);

  /// Whether the dataset has such a shard.
  [[nodiscard]] auto is_pinned(std::string const& dataset) const -> bool;

  /// A shard begins an epoch, in batches of this size. True if the position is its from now on: without a pinned one it
  /// is that of the shard that has begun last.
  auto begin_batches(std::string const& dataset, ShardProgressPointer const& progress, std::uint64_t batch_size)
      -> bool;

  /// Whether the dataset's position is this shard's.
  [[nodiscard]] auto follows(std::string const& dataset, ShardProgressPointer const& progress) const -> bool;

  [[nodiscard]] auto state() const -> State;

  /// True at the first call alone: that a checkpoint's position is not gone on from is told once.
  [[nodiscard]] auto is_first_lost_position() -> bool;

  /// Whether of the dataset that is trained on, and no validation's, the last batch of an epoch was taken, and none of
  /// the next one. That is the farthest of those with a pinned shard, where none has one of the split ones, and where
  /// none is split of all. Not where no batches were taken.
  [[nodiscard]] auto is_between_epochs() const -> bool;

  /// Whether of that dataset the last batch was taken of some virtual shards, and of others not.
  [[nodiscard]] auto is_within_step() const -> bool;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::uint64_t> batch_sizes_;
  /// The one that is trained on, of which batches were taken.
  [[nodiscard]] auto farthest() const -> std::optional<ShardProgress>;

  std::map<std::string, ShardProgressPointer> progress_;
  std::map<std::string, ShardProgressPointer> pinned_;
  std::set<std::string> split_;
  bool position_is_lost_ = false;
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/train/taken_data-inl.hpp>
#endif
