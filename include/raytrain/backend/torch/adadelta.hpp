// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <raytrain/backend/torch/detail/grouped_optimizer.hpp>

namespace raytrain {

struct AdadeltaOptions : torch::optim::OptimizerCloneableOptions<AdadeltaOptions> {
  AdadeltaOptions(double lr = 1.0) : lr_{lr} {}
  TORCH_ARG(double, lr) = 1.0;
  /// Of both running averages.
  TORCH_ARG(double, rho) = 0.9;
  /// Added below both roots.
  TORCH_ARG(double, eps) = 1e-6;
  TORCH_ARG(double, weight_decay) = 0;

 public:
  void serialize(torch::serialize::InputArchive& archive) override;
  void serialize(torch::serialize::OutputArchive& archive) const override;
  auto get_lr() const -> double override { return lr(); }
  void set_lr(double lr) override { lr_ = lr; }

  /// Errors: `invalid_config` for one out of range.
  void validate() const;
};

/// What `Adadelta` keeps of a parameter.
struct AdadeltaParamState : torch::optim::OptimizerCloneableParamState<AdadeltaParamState> {
  /// Of the gradients' squares.
  TORCH_ARG(torch::Tensor, square_avg);
  /// Of the steps' squares.
  TORCH_ARG(torch::Tensor, acc_delta);

 public:
  void serialize(torch::serialize::InputArchive& archive) override;
  void serialize(torch::serialize::OutputArchive& archive) const override;
};

/// Steps whose length each element sets itself, by the root mean square of its steps before, over that of its
/// gradients. Element-wise: `TorchContext::prepare_optimizer` shares it between the workers.
///
/// Threads: the worker's.
/// Errors:  `invalid_config` for options out of range; by `step()` `backend` for a sparse gradient.
/// Source:  M. Zeiler, "ADADELTA: An Adaptive Learning Rate Method", 2012, with the `lr` of PyTorch's.
class Adadelta : public detail::GroupedOptimizer<AdadeltaOptions, AdadeltaParamState> {
 public:
  using GroupedOptimizer::GroupedOptimizer;

  auto step(LossClosure closure = nullptr) -> at::Tensor override;
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/adadelta-inl.hpp>
#endif
