// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <raytrain/backend/torch/detail/device_copies.hpp>
#include <raytrain/backend/torch/detail/step_timer.hpp>
#include <raytrain/backend/torch/detail/torch_mapping.hpp>
#include <raytrain/core/element_type.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/shard_position.hpp>
#include <raytrain/data/batch.hpp>
#include <raytrain/data/batch_range.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/dataset_shard.hpp>
#include <raytrain/data/mapped_batches.hpp>
#include <raytrain/data/prefetch_options.hpp>

namespace raytrain {

namespace detail {

/// Errors: `invalid_data` for the unsigned types above a byte, of which not every LibTorch has tensors.
[[nodiscard]] auto torch_type(Column const& column) -> at::ScalarType;

/// Is told what a worker takes of its split datasets.
class BatchListener {
 public:
  BatchListener() = default;
  BatchListener(BatchListener const&) = delete;
  auto operator=(BatchListener const&) -> BatchListener& = delete;
  virtual ~BatchListener() = default;

  /// Before the program sees it.
  virtual void on_batch(Batch const& batch) = 0;
  /// All batches of a range were taken, and the program is done with the last one.
  virtual void on_end() = 0;
  /// A range is gone, of which perhaps not all batches were taken.
  virtual void on_left() noexcept = 0;
};

/// What stands beside a worker's batches.
struct BatchSetup {
  std::shared_ptr<BatchListener> listener{};     ///< May be null.
  std::shared_ptr<StepTimer> timer{};            ///< Likewise.
  std::shared_ptr<DeviceCopies const> copies{};  ///< To the tensors' device; null for the CPU.
};

}  // namespace detail

/// One worker's samples of one step, or with virtual shards of one of its shards in the step, as tensors. Good for as
/// long as the range it came from.
class TorchBatch {
 public:
  /// `timer`: may be null. `copies`: to the tensors' device; null for the CPU.
  explicit TorchBatch(Batch rows, detail::StepTimer* timer = nullptr,
                      detail::DeviceCopies const* copies = nullptr) noexcept
      : rows_{std::move(rows)}, timer_{timer}, copies_{copies} {}

  /// Samples; at least 1.
  [[nodiscard]] auto size() const noexcept -> std::int64_t { return static_cast<std::int64_t>(rows_.size()); }

  /// A column's rows in a new tensor of the column's own type, on the worker's device: {size, 28, 28} bytes for images
  /// of 28 x 28 pixels. Of texts their numbers in the column's dictionary: int32, -1 where a text is missing.
  ///
  /// Errors: `not_found` when there is no such column, listing those that there are; `invalid_data` for unsigned types
  ///         above a byte.
  /// Cost:   one copy, straight from the dataset; asked for twice, two. To a GPU another one, from pinned memory, for
  ///         which the program does not wait: it goes on beside the steps before, which the GPU still computes.
  [[nodiscard]] auto operator[](std::string_view column) const -> torch::Tensor;

  /// As of `Batch`: with `ScalingConfig::virtual_shards` false for a batch behind which the optimizer must not be
  /// stepped yet, since the gradients of the step are not complete.
  [[nodiscard]] auto ends_step() const noexcept -> bool { return rows_.ends_step(); }
  /// As of `Batch`: not to be counted.
  [[nodiscard]] auto is_padding() const noexcept -> bool { return rows_.is_padding(); }

  /// The rows behind the tensors.
  [[nodiscard]] auto rows() const noexcept -> Batch const& { return rows_; }

 private:
  Batch rows_;
  detail::StepTimer* timer_;
  detail::DeviceCopies const* copies_;
};

/// A `BatchRange` whose batches are tensors.
///
/// Threads: one at a time.
class TorchBatchRange {
 public:
  using Batch = TorchBatch;
  using Mapping = detail::TorchMapping;

  class Iterator {
   public:
    using value_type = TorchBatch;
    using difference_type = std::ptrdiff_t;

    Iterator() = default;
    Iterator(BatchRange::Iterator at, detail::BatchSetup const& setup) noexcept
        : at_{at}, listener_{setup.listener.get()}, timer_{setup.timer.get()}, copies_{setup.copies.get()} {}

    [[nodiscard]] auto operator*() const -> TorchBatch;
    /// As of `BatchRange::Iterator`.
    void hand_out(raytrain::Batch const& batch) const;
    auto operator++() -> Iterator&;
    void operator++(int) { ++*this; }
    friend auto operator==(Iterator const& it, std::default_sentinel_t) -> bool { return it.is_at_end(); }

   private:
    /// Tells the listener and the timer that the program gets the batch.
    void tell_of(raytrain::Batch const& batch) const;
    /// Whoever asks is done with the last batch.
    [[nodiscard]] auto is_at_end() const -> bool;

    BatchRange::Iterator at_;
    detail::BatchListener* listener_ = nullptr;
    detail::StepTimer* timer_ = nullptr;
    detail::DeviceCopies const* copies_ = nullptr;
    mutable bool is_told_ = false;  ///< Of the batch, or the end, that it is at.
  };

  explicit TorchBatchRange(BatchRange range, detail::BatchSetup setup = {}) noexcept
      : range_{std::move(range)}, setup_{std::move(setup)} {}

  /// Batches, the same number on every worker.
  [[nodiscard]] auto size() const noexcept -> std::size_t { return range_.size(); }
  [[nodiscard]] auto empty() const noexcept -> bool { return range_.empty(); }
  [[nodiscard]] auto begin() const noexcept -> Iterator { return {range_.begin(), setup_}; }
  [[nodiscard]] auto end() const noexcept -> std::default_sentinel_t { return {}; }

  /// Batch `index`, below `size()`, without moving the shard's position.
  [[nodiscard]] auto operator[](std::size_t index) const -> TorchBatch {
    return TorchBatch{range_[index], setup_.timer.get(), setup_.copies.get()};
  }

  /// Of the worker's steps; may be null.
  [[nodiscard]] auto timer() const noexcept -> detail::StepTimer* { return setup_.timer.get(); }

  /// As of `BatchRange`.
  [[nodiscard]] auto seed(std::size_t index) const noexcept -> std::uint64_t { return range_.seed(index); }

  /// What `f(batch)`, or `f(batch, generator)`, returns for each batch, in their order, made in threads ahead of the
  /// loop:
  ///
  ///     auto const prepared = [](raytrain::TorchBatch const& batch) { return batch["image"].to(torch::kFloat); };
  ///     for (auto images : shard.batches({.batch_size = 64}).map(prepared, {.threads = 2})) { ... }
  ///
  /// The shard's position is that behind the batch whose result the loop was handed last, whatever was made ahead.
  /// Random numbers in `f`, from the generator or from operations without one, follow from the batch (see
  /// `BatchRange::seed`): results are the same with any number of threads, none too, and after a resume; with
  /// `ScalingConfig::virtual_shards` with any number of workers. Its tensors have no gradients, autocast does not reach
  /// it, and operations in the threads use one thread each. The batches' tensors are on the CPU whatever the worker's
  /// device is: bring what `f` makes of them to a GPU in the loop, by `images.to(ctx.device(), /*non_blocking=*/true)`,
  /// for which the loop does not wait where `f` gives tensors in pinned memory, by `pin_memory()`.
  ///
  /// Threads: each calls a copy of `f`, all at the same time: what it refers to must bear that.
  /// Errors:  what `f` throws comes out of the loop in the place of its batch. `invalid_config` for options out of
  ///          range.
  template <BatchFunction<TorchBatch, at::Generator&> F>
  [[nodiscard]] auto map(F f, PrefetchOptions const& options = {}) const -> MappedBatches<TorchBatchRange, F> {
    static_assert(
        BatchFunction<F const, TorchBatch, at::Generator&>,
        "raytrain: what map() calls is const, for each thread has a copy of it, and which one gets a batch is "
        "open; random numbers come from its second parameter, an at::Generator&");
    return {*this, std::move(f), options};
  }

 private:
  BatchRange range_;
  detail::BatchSetup setup_;
};

/// A `DatasetShard` whose batches are tensors.
///
/// Threads: one at a time.
class TorchShard {
 public:
  explicit TorchShard(DatasetShard shard, detail::BatchSetup setup = {}) noexcept
      : shard_{std::move(shard)}, setup_{std::move(setup)} {}

  /// As of `DatasetShard`.
  [[nodiscard]] auto name() const noexcept -> std::string const& { return shard_.name(); }
  [[nodiscard]] auto rows() const noexcept -> std::size_t { return shard_.rows(); }
  [[nodiscard]] auto dataset() const noexcept -> Dataset const& { return shard_.dataset(); }
  [[nodiscard]] auto part() const -> Dataset { return shard_.part(); }
  /// Where the training goes on after the batch that was handed out last.
  [[nodiscard]] auto position() const noexcept -> ShardPosition { return shard_.position(); }

  /// This worker's batches of one epoch. Errors: as `DatasetShard::batches`.
  [[nodiscard]] auto batches(BatchOptions const& options) -> TorchBatchRange;

 private:
  friend class TorchContext;  // which lets it go on where a checkpoint was taken

  DatasetShard shard_;
  detail::BatchSetup setup_;
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/torch_shard-inl.hpp>
#endif
