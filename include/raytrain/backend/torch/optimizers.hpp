// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <tuple>

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

struct LAMBOptions : torch::optim::OptimizerCloneableOptions<LAMBOptions> {
  using betas_t = std::tuple<double, double>;

  LAMBOptions(double lr = 1e-3) : lr_{lr} {}
  TORCH_ARG(double, lr) = 1e-3;
  /// Of the running averages of gradients and of their squares.
  TORCH_ARG(betas_t, betas) = std::make_tuple(0.9, 0.999);
  /// Added to the root of the squares.
  TORCH_ARG(double, eps) = 1e-6;
  /// Added to the step, times the parameter.
  TORCH_ARG(double, weight_decay) = 0;
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

/// What `LAMB` keeps of a parameter.
struct LAMBParamState : torch::optim::OptimizerCloneableParamState<LAMBParamState> {
  TORCH_ARG(std::int64_t, step) = 0;
  /// Of the gradients.
  TORCH_ARG(torch::Tensor, exp_avg);
  /// Of their squares.
  TORCH_ARG(torch::Tensor, exp_avg_sq);

 public:
  void serialize(torch::serialize::InputArchive& archive) override;
  void serialize(torch::serialize::OutputArchive& archive) const override;
};

/// Adam's steps, each scaled by its trust ratio: the parameter's norm over the step's. For large batches. It needs the
/// norm of each parameter, which no worker has of a slice: each worker runs all of it,
///
///     raytrain::LAMB optimizer{model->parameters(), raytrain::LAMBOptions{2e-3}.weight_decay(0.01)};
///
/// on the averaged gradients of a model that `prepare_model` has prepared, to the same bits on all of them.
///
/// Threads: the worker's.
/// Errors:  `invalid_config` for options out of range; by `step()` `backend` for a sparse gradient.
/// Source:  Y. You et al., "Large Batch Optimization for Deep Learning: Training BERT in 76 minutes", ICLR 2020,
///          algorithm 2, with the identity for its function of the norm.
class LAMB : public detail::GroupedOptimizer<LAMBOptions, LAMBParamState> {
 public:
  using GroupedOptimizer::GroupedOptimizer;

  auto step(LossClosure closure = nullptr) -> at::Tensor override;
};

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
#include <raytrain/backend/torch/optimizers-inl.hpp>
#endif
