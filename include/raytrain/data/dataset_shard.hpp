// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <raytrain/config/scaling_config.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/shard_position.hpp>
#include <raytrain/data/batch_range.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/detail/epoch_order.hpp>

namespace raytrain {

/// What becomes of the rows at an epoch's end that cannot be divided equally over the workers, or virtual shards.
enum class Remainder : std::uint8_t {
  drop,  ///< They are left out of that epoch; of rows that are not shuffled they are the same ones in each epoch.
  pad,   ///< Every row comes, and so many of those at the epoch's begin come again that all have equally many.
};

/// How an epoch is served.
struct BatchOptions {
  /// Samples per worker and step, or with `ScalingConfig::virtual_shards` per virtual shard and step; at least 1.
  /// Unset: 256, unless `global_batch_size` is set.
  std::optional<std::int64_t> batch_size{};
  /// In its place: samples per step of all workers together, so that another number of workers takes the same steps,
  /// but for an epoch's last one, without `drop_last`: what becomes there of rows that do not divide by the workers,
  /// `remainder` says. A multiple of their number, in an elastic run of each number that it may have; with virtual
  /// shards of theirs alone. Of a dataset that is not split each worker takes all of them.
  std::optional<std::int64_t> global_batch_size{};
  std::int64_t epoch = 0;  ///< Not negative; each has its own order.
  bool shuffle = true;     ///< False: rows as they lie in the dataset.
  /// Rows, at least 1. Set: windows of so many rows that lie one behind the other come in a random order, and the rows
  /// of each in a random one, so that data that is larger than memory is read window by window. The order then takes
  /// 8 bytes for each window, and for each row of as many windows as a step needs, and two.
  /// Unset: all rows are shuffled as one, which takes 8 bytes for each.
  std::optional<std::int64_t> shuffle_window{};
  bool drop_last = false;  ///< True: an epoch ends before a batch that is smaller.
  /// `pad` is what PyTorch's `DistributedSampler` does. Not together with `drop_last`. Of rows as they lie a batch that
  /// has some of the epoch's end and some of its begin is then not `Batch::contiguous`.
  Remainder remainder = Remainder::drop;
  ShardPosition start{};  ///< Nothing before it is served: earlier epochs are empty, its own goes on there.

  /// How rows are ordered, as checkpoints keep it: "as they lie", "shuffled", "shuffled in windows of 65536".
  [[nodiscard]] auto order() const -> std::string;

  /// Errors: `invalid_config`, naming the field, its value and what to write instead; also when both sizes are set, for
  ///         a window of what is not shuffled, and for `drop_last` of what is padded.
  void validate() const;
};

/// Which part of a dataset is a worker's, and how it is shuffled.
struct ShardOptions {
  std::string name{};  ///< Of the dataset among the run's; empty outside of one.
  Rank rank{};
  WorldSize world_size{1};
  WorkerRange workers{};             ///< Of an elastic run.
  std::uint32_t virtual_shards = 0;  ///< As `ScalingConfig::virtual_shards`: 0, or at least the world size.
  std::uint64_t seed = 0;            ///< The same on every worker.
  bool split = true;                 ///< False: the whole dataset on each worker.
  /// What a preprocessor has made the dataset of; unset: nothing else.
  std::optional<Dataset> source{};
  /// In the start whose checkpoint this one goes on from, where saved positions come from; unset: as now.
  std::optional<std::uint64_t> seed_before{};
  std::optional<std::uint64_t> rows_before{};
  std::optional<std::string> digest_before{};  ///< `Dataset::digest`, of the source where there is one.
  /// How far that checkpoint has the dataset, and in which order (`BatchOptions::order`); unset: not known. Positions
  /// that the program keeps itself may be others, of which it says nothing.
  std::optional<ShardPosition> position_before{};
  std::optional<std::string> order_before{};
  /// Told of each epoch that is begun, with a `batch_size` where there was none.
  std::function<void(BatchOptions const& options, std::shared_ptr<ShardProgress const> const&)> on_batches{};
};

/// A worker's view of a dataset, with a position. Copies share the position.
///
/// A split epoch is one global order of all rows; step k takes world size times batch size of them, and rank r the r-th
/// equal part. So two workers with batch 64 train, step by step, on the samples of one with batch 128. What does not
/// divide by the world size at the epoch's end is left out of that epoch, unless `BatchOptions::remainder` pads it: in
/// the order of another epoch these are other rows, and without `shuffle` the dataset's last ones, which then never
/// come. To have each row once, take the batches of `part()`, and `TorchContext::join`, since some workers have a row
/// more. With virtual shards these take the place of the workers in all of that, and each worker takes its shards'
/// parts of a step one after the other.
///
/// Threads: one at a time.
class DatasetShard {
 public:
  /// Errors: `invalid_config` when the rank is not below the world size, there are fewer rows than workers or virtual
  /// shards, or fewer of these than workers.
  DatasetShard(Dataset dataset, ShardOptions shard);

  /// Samples that this worker takes in an epoch, unless it is padded; the same number on every worker, but where some
  /// have more virtual shards than others.
  [[nodiscard]] auto rows() const noexcept -> std::size_t;

  [[nodiscard]] auto dataset() const noexcept -> Dataset const& { return dataset_; }

  /// Among the run's datasets; empty for a shard that was made otherwise.
  [[nodiscard]] auto name() const noexcept -> std::string const& { return shard_.name; }

  /// Whether each worker has a part of the dataset, not all of it.
  [[nodiscard]] auto is_split() const noexcept -> bool { return shard_.split; }

  /// This worker's rows as they lie in the dataset, without copying them: for what trains on all rows at once. Together
  /// the workers have each row once, so that some have one more than others.
  [[nodiscard]] auto part() const -> Dataset;

  /// Where the training goes on after the batch that was handed out last.
  [[nodiscard]] auto position() const noexcept -> ShardPosition { return progress_->position; }

  /// As it moves on.
  [[nodiscard]] auto progress() const noexcept -> std::shared_ptr<ShardProgress const> { return progress_; }

  /// Nothing before it is served, as where `BatchOptions::start` says so each time.
  void begin_at(ShardPosition start);

  /// This worker's batches of one epoch.
  ///
  /// Errors: `invalid_config` for options out of range, for a global batch that cannot be divided, for a start behind
  /// the last row or within an epoch that had another order or content when the position was taken, and when
  /// `drop_last` leaves no batch at all.
  ///
  /// Cost: the first call for a shuffled epoch computes its order, 0.2 ms for 60,000 rows; workers of one process share
  /// it. With `shuffle_window` each window's order is computed at its first batch. The first start within an epoch
  /// computes the dataset's digest.
  [[nodiscard]] auto batches(BatchOptions const& options) -> BatchRange;

 private:
  [[nodiscard]] auto workers() const noexcept -> WorldSize { return shard_.split ? shard_.world_size : WorldSize{1}; }

  /// Into so many parts an epoch is cut.
  [[nodiscard]] auto shards() const noexcept -> std::uint32_t {
    return shard_.split && shard_.virtual_shards > 0 ? shard_.virtual_shards : workers().value;
  }

  /// "4 workers", "8 virtual shards".
  [[nodiscard]] auto shards_text() const -> std::string;

  /// With steps of so many samples.
  [[nodiscard]] auto epoch_order(BatchOptions const& options, std::uint64_t step) const
      -> std::shared_ptr<detail::EpochOrder const>;

  /// Of each part, at least 1. Errors: `invalid_config` for a global batch that cannot be divided.
  [[nodiscard]] auto part_size(BatchOptions const& options) const -> std::uint64_t;

  /// Another one for each of the run's datasets.
  [[nodiscard]] auto batch_seed() const noexcept -> std::uint64_t;

  // Of the start: rows that were trained on would come again, and others never.
  void check_order(BatchOptions const& options) const;

  void check_content(BatchOptions const& options) const;

  static auto first_sample(BatchOptions const& options, std::uint64_t total) noexcept -> std::uint64_t;

  Dataset dataset_;
  ShardOptions shard_;
  ShardPosition start_{};
  std::shared_ptr<ShardProgress> progress_ = std::make_shared<ShardProgress>();
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/data/dataset_shard-inl.hpp>
#endif
