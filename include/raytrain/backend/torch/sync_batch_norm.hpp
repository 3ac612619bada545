// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <iosfwd>
#include <memory>
#include <utility>

#include <raytrain/backend/torch/detail/joined_batch.hpp>

namespace raytrain {

/// In the place of `torch::nn::BatchNorm1d`, `2d` or `3d`: in train mode it normalises over the batches of all workers,
/// as one process with the joined batch does, also where these have other sizes. For small batches of each worker, as
/// of large images.
///
///     raytrain::SyncBatchNorm norm = register_module("norm", raytrain::SyncBatchNorm{64});
///
/// `TorchContext::prepare_model` connects all of a model with the other workers. Without it, with one worker, in eval
/// mode, and when the training function has returned, it is a BatchNorm. Its state has a BatchNorm's names and shapes,
/// and loads as one's. There is no function that puts it into a model: LibTorch's models hold their layers by type.
///
/// Shapes:  N x C, or N x C x ..., where N may be 0 on some workers. Of 16 bits it computes in 32.
/// Threads: the worker's. Every rank runs the same layers, forward and, if any does, backward.
/// Errors:  `rank_mismatch` on all ranks when one leaves a layer out; `invalid_call` for another shape, on all ranks
///          when a channel has less than two values, and for a backward with create_graph, or after the training.
/// Cost:    an all_gather of 2 C + 1 numbers forward, an all_reduce of 2 C numbers backward.
/// Source:  PyTorch's torch.nn.SyncBatchNorm; T. F. Chan, G. H. Golub, R. J. LeVeque, "Algorithms for Computing the
///          Sample Variance", 1983, for the joined moments.
class SyncBatchNormImpl : public torch::nn::NormImplBase<1, SyncBatchNormImpl, torch::nn::BatchNormOptions> {
 public:
  using NormImplBase::NormImplBase;

  [[nodiscard]] auto forward(at::Tensor const& input) -> at::Tensor;

  void pretty_print(std::ostream& stream) const override;

  /// For `TorchContext`: from now on the layer with this number of that model, both from 1.
  void connect(std::weak_ptr<detail::JoinedBatch> joined, detail::JoinedBatch::Pass pass) {
    joined_ = std::move(joined);
    pass_ = pass;
  }

 private:
  void _check_input_dim(at::Tensor const& input) override;

  /// Counts a batch. The share that its statistics have in the running ones.
  auto count_batch() -> double;
  [[nodiscard]] auto forward_alone(at::Tensor const& input) -> at::Tensor;
  [[nodiscard]] auto forward_joined(at::Tensor const& input, std::shared_ptr<detail::JoinedBatch> const& joined)
      -> at::Tensor;

  std::weak_ptr<detail::JoinedBatch> joined_;
  detail::JoinedBatch::Pass pass_;
};
TORCH_MODULE(SyncBatchNorm);

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/sync_batch_norm-inl.hpp>
#endif
