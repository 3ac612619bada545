// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <concepts>
#include <cstddef>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include <raytrain/backend/torch/torch_shard.hpp>
#include <raytrain/data/dataset_shard.hpp>
#include <raytrain/data/prefetch_options.hpp>

namespace raytrain {

namespace detail {

/// Asks a dataset of LibTorch's for the examples of batches. A copy asks a copy of the dataset.
template <class D>
class ExampleReader {
 public:
  /// `dataset`: is copied by the first call.
  explicit ExampleReader(std::shared_ptr<D const> dataset) noexcept : original_{std::move(dataset)} {}

  auto operator()(TorchBatch const& batch) -> typename D::BatchType {
    if (!own_) own_.emplace(*original_);
    std::vector<std::size_t> indices(batch.rows().size());
    for (std::size_t i = 0; i < indices.size(); ++i) indices[i] = static_cast<std::size_t>(batch.rows().row(i));
    return own_->get_batch(indices);
  }

 private:
  std::shared_ptr<D const> original_;
  std::optional<D> own_{};
};

}  // namespace detail

/// One worker's examples of a dataset of LibTorch's, in batches, with a position; what `TorchContext::data_loader`
/// makes. As a part of a `TrainingState` it has its own name, and goes on where the checkpoint was taken.
///
/// Threads: one at a time.
template <class D>
class DataLoader : public TorchShard {
 public:
  static_assert(!D::is_stateful,
                "raytrain: a data loader asks for examples by their indices; a stateful dataset of torch::data, which "
                "has an order of its own, cannot be divided among workers");
  static_assert(std::constructible_from<typename D::BatchRequestType, std::vector<std::size_t>&>,
                "raytrain: a data loader asks for examples by their indices; this dataset's get_batch() takes "
                "something else, as a stream's does");
  static_assert(std::copy_constructible<D>, "raytrain: each thread of a data loader has a copy of the dataset");

  using Batches = MappedBatches<TorchBatchRange, detail::ExampleReader<D>>;

  /// `indices`: a shard of as many rows as the dataset has examples.
  DataLoader(TorchShard indices, D dataset)
      : TorchShard{std::move(indices)}, dataset_{std::make_shared<D const>(std::move(dataset))} {}

  [[nodiscard]] auto dataset() const noexcept -> D const& { return *dataset_; }

  /// This worker's batches of one epoch, as the dataset's `get_batch` gives them for their indices: with
  /// `.map(torch::data::transforms::Stack<>{})` an `Example` of two tensors, otherwise a vector of such.
  ///
  /// Each thread asks a copy of the dataset, as LibTorch's own loader does. Random numbers in it, gradients and threads
  /// of its operations, exceptions and the loop's end are as of `TorchBatchRange::map`.
  /// Tensors stay where the dataset makes them, mostly on the CPU.
  /// Errors: as `DatasetShard::batches`; `invalid_config` for `PrefetchOptions` out of range.
  /// Cost:   a copy of the dataset for each thread.
  [[nodiscard]] auto batches(BatchOptions const& options, PrefetchOptions const& prefetch = {}) -> Batches {
    prefetch.validate();
    return {TorchShard::batches(options), detail::ExampleReader<D>{dataset_}, prefetch};
  }

 private:
  std::shared_ptr<D const> dataset_;
};

}  // namespace raytrain
