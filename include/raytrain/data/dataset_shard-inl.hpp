// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/shard_position.hpp>
#include <raytrain/data/batch_range.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/dataset_shard.hpp>
#include <raytrain/data/detail/epoch_order.hpp>
#include <raytrain/data/detail/permutation.hpp>
#include <raytrain/data/shuffle_key.hpp>

namespace raytrain {

RAYTRAIN_INLINE void BatchOptions::validate() const {
  if (batch_size && global_batch_size) {
    throw Error{Errc::invalid_config, "BatchOptions",
                fmt::format("has a batch_size, {}, and a global_batch_size, {}, of which one follows from the other",
                            *batch_size, *global_batch_size),
                "write one of them"};
  }
  if (batch_size && *batch_size < 1) {
    throw Error{Errc::invalid_config, "BatchOptions::batch_size",
                fmt::format("must be at least 1 (got {})", *batch_size), "write {.batch_size = 256}"};
  }
  if (global_batch_size && *global_batch_size < 1) {
    throw Error{Errc::invalid_config, "BatchOptions::global_batch_size",
                fmt::format("must be at least 1 (got {})", *global_batch_size), "write {.global_batch_size = 256}"};
  }
  if (epoch < 0) {
    throw Error{Errc::invalid_config, "BatchOptions::epoch", fmt::format("must not be negative (got {})", epoch),
                "count epochs from 0"};
  }
  if (drop_last && remainder == Remainder::pad) {
    throw Error{Errc::invalid_config, "BatchOptions::remainder",
                "is Remainder::pad, and .drop_last is true: an epoch that is padded has a last batch, which may be "
                "smaller",
                "write one of them"};
  }
  if (!shuffle_window) return;
  if (*shuffle_window < 1) {
    throw Error{Errc::invalid_config, "BatchOptions::shuffle_window",
                fmt::format("must be at least 1 (got {})", *shuffle_window), "write {.shuffle_window = 65536}"};
  }
  if (!shuffle) {
    throw Error{Errc::invalid_config, "BatchOptions::shuffle_window",
                fmt::format("is {}, and .shuffle is false: rows as they lie are not shuffled", *shuffle_window),
                "write .shuffle = true, or leave the window out"};
  }
}

RAYTRAIN_INLINE auto BatchOptions::order() const -> std::string {
  if (!shuffle) return "as they lie";
  return shuffle_window ? fmt::format("shuffled in windows of {}", *shuffle_window) : "shuffled";
}

RAYTRAIN_INLINE DatasetShard::DatasetShard(Dataset dataset, ShardOptions shard)
    : dataset_{std::move(dataset)}, shard_{std::move(shard)} {
  if (shard_.rank.value >= shard_.world_size.value) {
    throw Error{Errc::invalid_config, "DatasetShard",
                fmt::format("rank {} is not below the world size {}", shard_.rank.value, shard_.world_size.value),
                "count ranks from 0"};
  }
  if (shard_.virtual_shards > 0 && shard_.virtual_shards < shard_.world_size.value) {
    throw Error{Errc::invalid_config, "DatasetShard",
                fmt::format("{} virtual shards leave nothing for some of {} workers", shard_.virtual_shards,
                            shard_.world_size.value),
                "use as many virtual shards as there may be workers"};
  }
  if (dataset_.rows() < shards()) {
    throw Error{Errc::invalid_config, "DatasetShard",
                fmt::format("{} rows leave nothing for each of {}", dataset_.rows(), shards_text()),
                shards() == workers().value ? "use fewer workers or more rows"
                                            : "lower ScalingConfig::virtual_shards, or use more rows"};
  }
}

RAYTRAIN_INLINE auto DatasetShard::rows() const noexcept -> std::size_t {
  auto const rank = shard_.split ? shard_.rank.value : 0;
  auto const own = (shards() - rank + workers().value - 1) / workers().value;
  return dataset_.rows() / shards() * own;
}

RAYTRAIN_INLINE auto DatasetShard::shards_text() const -> std::string {
  return shards() == workers().value ? fmt::format("{} workers", shards()) : fmt::format("{} virtual shards", shards());
}

RAYTRAIN_INLINE auto DatasetShard::part() const -> Dataset {
  auto const total = std::uint64_t{dataset_.rows()};
  auto const bound = [&](std::uint64_t rank) { return static_cast<std::size_t>(total * rank / workers().value); };
  auto const rank = shard_.split ? std::uint64_t{shard_.rank.value} : 0;
  return dataset_.split_at(bound(rank + 1)).first.split_at(bound(rank)).second;
}

RAYTRAIN_INLINE auto DatasetShard::part_size(BatchOptions const& options) const -> std::uint64_t {
  if (!options.global_batch_size) return static_cast<std::uint64_t>(options.batch_size.value_or(256));
  auto const size = static_cast<std::uint64_t>(*options.global_batch_size);
  auto const is_elastic = shard_.workers.is_elastic() && shard_.split && shard_.virtual_shards == 0;
  auto const fewest = is_elastic ? std::uint64_t{shard_.workers.fewest.value} : shards();
  auto const most = is_elastic ? std::uint64_t{shard_.workers.most.value} : shards();
  constexpr std::uint64_t most_divisor = std::numeric_limits<std::uint32_t>::max();
  std::uint64_t divisor = 1;  // what they have in common, unless that is above `most_divisor`
  std::optional<std::uint64_t> refuses;
  for (auto parts = fewest; parts <= most; ++parts) {
    if (divisor <= most_divisor) divisor = std::lcm(divisor, parts);
    if (!refuses && size % parts != 0) refuses = parts;
  }
  if (!refuses) return size / shards();
  auto const below = size / divisor * divisor;
  auto remedy = below > 0 ? fmt::format("write {} or {}", below, below + divisor) : fmt::format("write {}", divisor);
  constexpr auto by_shards = "set ScalingConfig::virtual_shards to a number that divides it";
  if (is_elastic) remedy = divisor <= most_divisor ? fmt::format("{}, or {}", remedy, by_shards) : by_shards;
  throw Error{Errc::invalid_config, "BatchOptions::global_batch_size",
              is_elastic
                  ? fmt::format("{} samples cannot be divided equally over {} workers, of which this run may have {} "
                                "to {}",
                                size, *refuses, fewest, most)
                  : fmt::format("{} samples cannot be divided equally over {}", size, shards_text()),
              remedy};
}

RAYTRAIN_INLINE auto DatasetShard::batches(BatchOptions const& wanted) -> BatchRange {
  wanted.validate();
  auto options = wanted;
  options.start = std::max(wanted.start, start_);
  auto const total = std::uint64_t{dataset_.rows()};
  auto const pads = options.remainder == Remainder::pad;
  auto const share = (total + (pads ? shards() - 1 : 0)) / shards();
  auto const wanted_size = part_size(options);
  options.batch_size = static_cast<std::int64_t>(wanted_size);
  auto const batch_size = std::min(wanted_size, share);
  if (options.drop_last && batch_size < wanted_size) {
    auto const is_global = options.global_batch_size.has_value();
    throw Error{Errc::invalid_config, is_global ? "BatchOptions::global_batch_size" : "BatchOptions::batch_size",
                fmt::format("{} rows over {} give {} each: with drop_last, batches of {} leave nothing", total,
                            shards_text(), share, wanted_size),
                fmt::format("write at most {}, or .drop_last = false", is_global ? share * shards() : share)};
  }
  if (options.start.samples > total) {
    throw Error{
        Errc::invalid_config, "BatchOptions::start",
        fmt::format("{} samples are already done, but the dataset has only {} rows", options.start.samples, total),
        "use the dataset that the position was taken from"};
  }
  check_order(options);
  BatchRange::Cut cut{.rank = shard_.split ? shard_.rank : Rank{0},
                      .world_size = workers(),
                      .shards = shards(),
                      .begin = first_sample(options, total),
                      .end = total,
                      .step = batch_size * shards(),
                      .epoch = options.epoch,
                      .seed = batch_seed()};
  auto const left = cut.end - cut.begin;
  // A step has at least as many samples as there are shards, so that none begins among those that come again, and each
  // position within the epoch is one of its rows.
  if (pads) {
    cut.end += (shards() - left % shards()) % shards();
  } else {
    cut.end -= left % (options.drop_last ? cut.step : shards());
  }
  auto const is_over = cut.begin >= cut.end;
  auto const begin =
      std::max(options.start, is_over ? ShardPosition{options.epoch + 1, 0} : ShardPosition{options.epoch, cut.begin});
  progress_->position = begin;
  progress_->is_within_step = false;
  if (begin.epoch == options.epoch) progress_->order = options.order();
  if (!is_over && (options.shuffle || cut.end > total)) cut.order = epoch_order(options, cut.step);
  if (shard_.on_batches) shard_.on_batches(options, progress_);
  return {dataset_, std::move(cut), progress_};
}

RAYTRAIN_INLINE void DatasetShard::begin_at(ShardPosition start) {
  start_ = start;
  if (start <= progress_->position) return;
  progress_->position = start;
  progress_->order = start == shard_.position_before ? shard_.order_before.value_or("") : "";
}

RAYTRAIN_INLINE auto DatasetShard::epoch_order(BatchOptions const& options, std::uint64_t step) const
    -> std::shared_ptr<detail::EpochOrder const> {
  if (!options.shuffle) {
    return std::make_shared<detail::EpochOrder const>(detail::EpochOrder::AsTheyLie{dataset_.rows()});
  }
  ShuffleKey const key{shard_.seed, static_cast<std::uint64_t>(options.epoch)};
  if (!options.shuffle_window) return std::make_shared<detail::EpochOrder const>(dataset_.shuffled_rows(key));
  return std::make_shared<detail::EpochOrder const>(
      detail::EpochOrder::Windows{.key = key,
                                  .rows = dataset_.rows(),
                                  .window_rows = static_cast<std::uint64_t>(*options.shuffle_window),
                                  .step = step});
}

RAYTRAIN_INLINE auto DatasetShard::batch_seed() const noexcept -> std::uint64_t {
  auto seed = detail::SplitMix64{shard_.seed}();
  for (auto const letter : shard_.name) seed = detail::SplitMix64{seed + static_cast<unsigned char>(letter)}();
  return seed;
}

RAYTRAIN_INLINE void DatasetShard::check_order(BatchOptions const& options) const {
  if (options.start.epoch != options.epoch || options.start.samples == 0) return;
  if (options.start == shard_.position_before && shard_.order_before && *shard_.order_before != options.order()) {
    throw Error{Errc::invalid_config, "BatchOptions::start",
                fmt::format("{} samples of epoch {} are done of rows that came {}, and they come {} now",
                            options.start.samples, options.epoch, *shard_.order_before, options.order()),
                "write .shuffle and .shuffle_window as they were, or begin that epoch anew, without a start"};
  }
  auto const seed = options.shuffle ? shard_.seed_before.value_or(shard_.seed) : shard_.seed;
  auto const rows = shard_.rows_before.value_or(dataset_.rows());
  if (seed == shard_.seed && rows == dataset_.rows()) return check_content(options);
  throw Error{Errc::invalid_config, "BatchOptions::start",
              fmt::format("{} samples of epoch {} are done in an order that is another one now: of {} rows by seed "
                          "{}, and now of {} by {}",
                          options.start.samples, options.epoch, rows, seed, dataset_.rows(), shard_.seed),
              "go on with that seed and dataset, or begin that epoch anew, without a start"};
}

RAYTRAIN_INLINE void DatasetShard::check_content(BatchOptions const& options) const {
  auto const& digest = (shard_.source ? *shard_.source : dataset_).digest();
  auto const& before = shard_.digest_before.value_or(digest);
  if (before == digest) return;
  throw Error{Errc::invalid_config, "BatchOptions::start",
              fmt::format("{} samples of epoch {} are done of a dataset with other columns or values: its digest was "
                          "{}, and is {} now",
                          options.start.samples, options.epoch, before, digest),
              "go on with that dataset, or begin that epoch anew, without a start"};
}

RAYTRAIN_INLINE auto DatasetShard::first_sample(BatchOptions const& options, std::uint64_t total) noexcept
    -> std::uint64_t {
  if (options.start.epoch < options.epoch) return 0;
  return options.start.epoch > options.epoch ? total : options.start.samples;
}

}  // namespace raytrain
