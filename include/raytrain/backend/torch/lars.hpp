// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <raytrain/backend/torch/detail/grouped_optimizer.hpp>

namespace raytrain {

struct LARSOptions : torch::optim::OptimizerCloneableOptions<LARSOptions> {
  LARSOptions(double lr = 1.0) : lr_{lr} {}
  TORCH_ARG(double, lr) = 1.0;
  TORCH_ARG(double, momentum) = 0.9;
  /// Added to the gradient, times the parameter.
  TORCH_ARG(double, weight_decay) = 0;
  /// How far a parameter moves at a rate of 1, as a part of its norm.
  TORCH_ARG(double, trust_coefficient) = 1e-3;
  /// Of biases and of layers of norms it is mostly false: give them a group of their own.
  TORCH_ARG(bool, trust_ratio) = true;

 public:
  void serialize(torch::serialize::InputArchive& archive) override;
  void serialize(torch::serialize::OutputArchive& archive) const override;
  auto get_lr() const -> double override { return lr(); }
  void set_lr(double lr) override { lr_ = lr; }

  /// Errors: `invalid_config` for one out of range.
  void validate() const;
};

/// What `LARS` keeps of a parameter.
struct LARSParamState : torch::optim::OptimizerCloneableParamState<LARSParamState> {
  /// Of the steps, with their rates.
  TORCH_ARG(torch::Tensor, momentum_buffer);

 public:
  void serialize(torch::serialize::InputArchive& archive) override;
  void serialize(torch::serialize::OutputArchive& archive) const override;
};

/// SGD with momentum, with a rate of each parameter's own: its norm over its gradient's. For large batches. It needs
/// the norm of each parameter, which no worker has of a slice: each worker runs all of it,
///
///     raytrain::LARS optimizer{model->parameters(), raytrain::LARSOptions{4.0}.weight_decay(1e-4)};
///
/// on the averaged gradients of a model that `prepare_model` has prepared, to the same bits on all of them.
///
/// Threads: the worker's.
/// Errors:  `invalid_config` for options out of range; by `step()` `backend` for a sparse gradient.
/// Source:  Y. You, I. Gitman, B. Ginsburg, "Large Batch Training of Convolutional Networks", 2017, algorithm 1.
class LARS : public detail::GroupedOptimizer<LARSOptions, LARSParamState> {
 public:
  using GroupedOptimizer::GroupedOptimizer;

  auto step(LossClosure closure = nullptr) -> at::Tensor override;
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/lars-inl.hpp>
#endif
