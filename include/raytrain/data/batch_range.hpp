// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/shard_position.hpp>
#include <raytrain/data/batch.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/detail/epoch_order.hpp>
#include <raytrain/data/mapped_batches.hpp>
#include <raytrain/data/prefetch_options.hpp>

namespace raytrain {

/// How far a shard's batches were handed out.
struct ShardProgress {
  ShardPosition position{};
  bool is_within_step = false;  ///< The last one of them does not end its step.
  std::string order{};          ///< That of the position's epoch, as `BatchOptions::order`; empty where none is known.
};

/// One worker's batches of one epoch, an input range of `Batch`; made by `DatasetShard::batches`. Keeps the rows alive.
///
/// Threads: one at a time.
class BatchRange {
 public:
  using Mapping = detail::PlainMapping;

  /// How an epoch is cut. Global batch k is the samples [begin + k * step, begin + (k + 1) * step) of the epoch's
  /// order, and each shard takes one equal part of it.
  struct Cut {
    Rank rank{};
    WorldSize world_size{1};
    std::uint32_t shards{1};  ///< At least as many as workers, which take turns as in `ShardTurn`.
    std::uint64_t begin{};    ///< First sample.
    std::uint64_t end{};      ///< One past the last; `end - begin` is a multiple of `shards`.
    std::uint64_t step{1};    ///< Samples of a global batch, a multiple of `shards`.
    std::int64_t epoch{};
    std::uint64_t seed{};                               ///< Of what is random about the batches.
    std::shared_ptr<detail::EpochOrder const> order{};  ///< Null: rows as they lie.
  };

  class Iterator {
   public:
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;

    Iterator() = default;
    Iterator(BatchRange const* range, std::size_t index) noexcept : range_{range}, index_{index} {}

    [[nodiscard]] auto operator*() const -> Batch;
    /// The shard's position moves behind this batch, the one that `operator*` gives: for whoever has it already.
    void hand_out(Batch const& batch) const noexcept;
    auto operator++() noexcept -> Iterator&;
    void operator++(int) noexcept { ++index_; }
    friend auto operator==(Iterator const& it, std::default_sentinel_t) noexcept -> bool {
      return it.index_ == it.range_->size();
    }

   private:
    BatchRange const* range_ = nullptr;
    std::size_t index_ = 0;
  };

  /// `progress` follows the batches as they are handed out.
  BatchRange(Dataset dataset, Cut cut, std::shared_ptr<ShardProgress> progress) noexcept
      : dataset_{std::move(dataset)}, cut_{std::move(cut)}, progress_{std::move(progress)} {}

  /// Batches, as many on every worker.
  [[nodiscard]] auto size() const noexcept -> std::size_t;
  [[nodiscard]] auto empty() const noexcept -> bool { return size() == 0; }

  [[nodiscard]] auto begin() const noexcept -> Iterator { return {this, 0}; }
  [[nodiscard]] auto end() const noexcept -> std::default_sentinel_t { return {}; }

  /// Batch `index`, below `size()`, without moving the shard's position.
  ///
  /// Threads: several at the same time.
  [[nodiscard]] auto operator[](std::size_t index) const -> Batch;

  /// For what is random about batch `index`, below `size()`, as its augmentation. It follows from the run's seed, the
  /// dataset's name, the epoch and where the batch begins in its order: another one for each batch, that of the first
  /// shard again for padding, and the same after a resume.
  [[nodiscard]] auto seed(std::size_t index) const noexcept -> std::uint64_t;

  /// What `f(batch)`, or `f(batch, seed)`, returns for each batch, in their order, made in threads ahead of the loop:
  ///
  ///     auto const prepared = [](raytrain::Batch const& batch, std::uint64_t seed) {
  ///       std::vector<float> images(batch.size() * 784);
  ///       batch.gather("image", std::span{images});
  ///       add_noise(images, std::mt19937_64{seed});
  ///       return images;
  ///     };
  ///     for (auto images : shard.batches({.batch_size = 64}).map(prepared, {.threads = 2})) { ... }
  ///
  /// The shard's position is that behind the batch whose result the loop was handed last, whatever was made ahead.
  /// `seed` is that of the batch: what `f` draws by it is the same with any number of threads, none too, and after a
  /// resume; with `ScalingConfig::virtual_shards` with any number of workers.
  ///
  /// Threads: each calls a copy of `f`, all at the same time: what it refers to must bear that.
  /// Errors:  what `f` throws comes out of the loop in the place of its batch. `invalid_config` for options out of
  ///          range.
  template <BatchFunction<Batch, std::uint64_t> F>
  [[nodiscard]] auto map(F f, PrefetchOptions const& options = {}) const -> MappedBatches<BatchRange, F> {
    static_assert(
        BatchFunction<F const, Batch, std::uint64_t>,
        "raytrain: what map() calls is const, for each thread has a copy of it, and which one gets a batch is "
        "open; random numbers come from its second parameter, a std::uint64_t");
    return {*this, std::move(f), options};
  }

 private:
  /// The samples that batch `index` is of.
  struct Samples {
    std::uint64_t step_begin;
    std::uint64_t step_size;
    std::uint64_t first;
    std::size_t size;
    ShardTurn turn;
  };

  [[nodiscard]] auto samples(std::size_t index) const noexcept -> Samples;

  [[nodiscard]] auto turns_per_step() const noexcept -> std::uint32_t {
    return (cut_.shards + cut_.world_size.value - 1) / cut_.world_size.value;
  }

  Dataset dataset_;
  Cut cut_;
  std::shared_ptr<ShardProgress> progress_;
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/data/batch_range-inl.hpp>
#endif
