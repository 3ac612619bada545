// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include <raytrain/core/error.hpp>
#include <raytrain/core/rank.hpp>
#include <raytrain/data/batch_range.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/shard_position.hpp>
#include <raytrain/data/shuffle_key.hpp>

namespace raytrain {

/// How an epoch is served.
struct BatchOptions {
  std::int64_t batch_size = 256;  ///< Samples per worker and step, at least 1.
  std::int64_t epoch = 0;         ///< Not negative; each has its own order.
  bool shuffle = true;            ///< False: rows as they lie in the dataset.
  bool drop_last = false;         ///< True: an epoch ends before a batch that is smaller than `batch_size`.
  ShardPosition start{};          ///< Nothing before it is served: earlier epochs are empty, its own goes on there.

  /// Errors: `invalid_config`, naming the field, its value and what to write instead.
  void validate() const {
    if (batch_size < 1) {
      throw Error{Errc::invalid_config, "BatchOptions::batch_size",
                  fmt::format("must be at least 1 (got {})", batch_size), "write {.batch_size = 256}"};
    }
    if (epoch < 0) {
      throw Error{Errc::invalid_config, "BatchOptions::epoch", fmt::format("must not be negative (got {})", epoch),
                  "count epochs from 0"};
    }
  }
};

/// A worker's place among those that train on a dataset.
struct ShardPlace {
  Rank rank{};
  WorldSize world_size{1};
  std::uint64_t seed = 0;  ///< The same on every worker.
  bool split = true;       ///< False: the whole dataset on each worker.
  /// In the start whose checkpoint this one goes on from, where saved positions come from; unset: as now.
  std::optional<std::uint64_t> seed_before{};
  std::optional<std::uint64_t> rows_before{};
  std::optional<std::string> digest_before{};                     ///< `Dataset::digest`.
  std::function<void(BatchOptions const& options)> on_batches{};  ///< Told of each epoch that is begun.
};

/// A worker's view of a dataset, with a position. Copies share the position.
///
/// A split epoch is one global order of all rows; step k takes world size times batch size of them, and rank r the r-th
/// equal part. So two workers with batch 64 train, step by step, on the samples of one with batch 128. What does not
/// divide by the world size at the epoch's end is left out of that epoch.
///
/// Threads: one at a time.
class DatasetShard {
 public:
  /// Errors: `invalid_config` when the rank is not below the world size, or there are fewer rows than workers.
  DatasetShard(Dataset dataset, ShardPlace place) : dataset_{std::move(dataset)}, place_{std::move(place)} {
    if (place_.rank.value >= place_.world_size.value) {
      throw Error{Errc::invalid_config, "DatasetShard",
                  fmt::format("rank {} is not below the world size {}", place_.rank.value, place_.world_size.value),
                  "count ranks from 0"};
    }
    if (rows() == 0) {
      throw Error{Errc::invalid_config, "DatasetShard",
                  fmt::format("{} rows leave nothing for each of {} workers", dataset_.rows(), workers().value),
                  "use fewer workers or more rows"};
    }
  }

  /// Samples that this worker takes in an epoch; the same number on every worker.
  [[nodiscard]] auto rows() const noexcept -> std::size_t { return dataset_.rows() / workers().value; }

  [[nodiscard]] auto dataset() const noexcept -> Dataset const& { return dataset_; }

  /// Whether each worker has a part of the dataset, not all of it.
  [[nodiscard]] auto is_split() const noexcept -> bool { return place_.split; }

  /// This worker's rows as they lie in the dataset, without copying them: for what trains on all rows at once. Together
  /// the workers have each row once, so that some have one more than others.
  [[nodiscard]] auto part() const -> Dataset {
    auto const total = std::uint64_t{dataset_.rows()};
    auto const bound = [&](std::uint64_t rank) { return static_cast<std::size_t>(total * rank / workers().value); };
    auto const rank = place_.split ? std::uint64_t{place_.rank.value} : 0;
    return dataset_.split_at(bound(rank + 1)).first.split_at(bound(rank)).second;
  }

  /// Where the training goes on after the batch that was handed out last.
  [[nodiscard]] auto position() const noexcept -> ShardPosition { return *position_; }

  /// This worker's batches of one epoch, from memory.
  ///
  /// Errors: `invalid_config` for options out of range, for a start behind the last row or within an epoch that had
  /// another order or content when the position was taken, and when `drop_last` leaves no batch at all.
  /// Cost: the first call for a shuffled epoch computes its order, 0.2 ms for 60,000 rows; workers of one process
  /// share it. The first start within an epoch computes the dataset's digest.
  [[nodiscard]] auto batches(BatchOptions const& options) -> BatchRange {
    options.validate();
    auto const world = std::uint64_t{workers().value};
    auto const total = std::uint64_t{dataset_.rows()};
    auto const share = std::uint64_t{rows()};
    auto const batch_size = std::min(static_cast<std::uint64_t>(options.batch_size), share);
    if (options.drop_last && batch_size < static_cast<std::uint64_t>(options.batch_size)) {
      throw Error{Errc::invalid_config, "BatchOptions::batch_size",
                  fmt::format("{} rows over {} workers give {} each: with drop_last, batches of {} leave nothing",
                              total, world, share, options.batch_size),
                  fmt::format("write at most {}, or .drop_last = false", share)};
    }
    if (options.start.samples > total) {
      throw Error{
          Errc::invalid_config, "BatchOptions::start",
          fmt::format("{} samples are already done, but the dataset has only {} rows", options.start.samples, total),
          "use the dataset that the position was taken from"};
    }
    check_order(options);
    BatchRange::Cut cut{.rank = place_.split ? place_.rank : Rank{0},
                        .world_size = workers(),
                        .begin = first_sample(options, total),
                        .end = total,
                        .step = batch_size * world,
                        .epoch = options.epoch};
    auto const left = cut.end - cut.begin;
    cut.end -= left % (options.drop_last ? cut.step : world);
    *position_ = std::max(options.start, ShardPosition{options.epoch, cut.begin});
    auto order = options.shuffle && cut.begin < cut.end ? dataset_.shuffled_rows(key(options)) : nullptr;
    if (place_.on_batches) place_.on_batches(options);
    return {dataset_, cut, std::move(order), position_};
  }

 private:
  [[nodiscard]] auto workers() const noexcept -> WorldSize { return place_.split ? place_.world_size : WorldSize{1}; }

  [[nodiscard]] auto key(BatchOptions const& options) const noexcept -> ShuffleKey {
    return {place_.seed, static_cast<std::uint64_t>(options.epoch)};
  }

  // Rows that were trained on would come again, and others never.
  void check_order(BatchOptions const& options) const {
    if (options.start.epoch != options.epoch || options.start.samples == 0) return;
    auto const seed = options.shuffle ? place_.seed_before.value_or(place_.seed) : place_.seed;
    auto const rows = place_.rows_before.value_or(dataset_.rows());
    if (seed == place_.seed && rows == dataset_.rows()) return check_content(options);
    throw Error{Errc::invalid_config, "BatchOptions::start",
                fmt::format("{} samples of epoch {} are done in an order that is another one now: of {} rows by seed "
                            "{}, and now of {} by {}",
                            options.start.samples, options.epoch, rows, seed, dataset_.rows(), place_.seed),
                "go on with that seed and dataset, or begin that epoch anew, without a start"};
  }

  void check_content(BatchOptions const& options) const {
    auto const& digest = dataset_.digest();
    auto const& before = place_.digest_before.value_or(digest);
    if (before == digest) return;
    throw Error{Errc::invalid_config, "BatchOptions::start",
                fmt::format("{} samples of epoch {} are done of a dataset with other columns or values: its digest was "
                            "{}, and is {} now",
                            options.start.samples, options.epoch, before, digest),
                "go on with that dataset, or begin that epoch anew, without a start"};
  }

  static auto first_sample(BatchOptions const& options, std::uint64_t total) noexcept -> std::uint64_t {
    if (options.start.epoch < options.epoch) return 0;
    return options.start.epoch > options.epoch ? total : options.start.samples;
  }

  Dataset dataset_;
  ShardPlace place_;
  std::shared_ptr<ShardPosition> position_ = std::make_shared<ShardPosition>();
};

}  // namespace raytrain
