// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <concepts>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <torch/torch.h>

#include <raytrain/core/error.hpp>

namespace raytrain::detail {

/// What optimizers of LibTorch's kind have beside their step: groups of parameters with `Options`, a `State` for each
/// parameter, and both in an archive.
///
/// Errors: as `Options::validate`, of the defaults and of each group's.
template <class Options, class State>
class GroupedOptimizer : public torch::optim::Optimizer {
 public:
  explicit GroupedOptimizer(std::vector<torch::optim::OptimizerParamGroup> const& groups, Options const& defaults = {})
      : Optimizer{std::vector<torch::optim::OptimizerParamGroup>{}, std::make_unique<Options>(defaults)} {
    defaults.validate();
    for (auto const& group : groups) add_param_group(group);
  }
  explicit GroupedOptimizer(std::vector<at::Tensor> parameters, Options const& defaults = {})
      : GroupedOptimizer{std::vector{torch::optim::OptimizerParamGroup{std::move(parameters)}}, defaults} {}

  /// One without options of its own has the defaults.
  void add_param_group(torch::optim::OptimizerParamGroup const& group) {
    if (group.has_options()) static_cast<Options const&>(group.options()).validate();
    Optimizer::add_param_group(group);
    // LibTorch 2.15 gives the defaults to a group whose options are of a type that it does not know.
    if (group.has_options()) param_groups().back().set_options(group.options().clone());
  }

  void save(torch::serialize::OutputArchive& archive) const override {
    torch::optim::serialize<State, Options>(archive, *this);
  }
  void load(torch::serialize::InputArchive& archive) override {
    torch::optim::serialize<State, Options>(archive, *this);
  }
};

}  // namespace raytrain::detail

/// What the optimizers have in common that LibTorch does not bring.
namespace raytrain::detail {

/// The loss of a closure, if there is one, which is called with gradients.
[[nodiscard]] inline auto loss_of(torch::optim::Optimizer::LossClosure const& closure) -> at::Tensor {
  torch::AutoGradMode const with_gradients{true};
  return closure ? closure() : at::Tensor{};
}

/// The state of a parameter in a map of an optimizer's, whose keys are texts before LibTorch 2.
template <class States>
[[nodiscard]] auto state_in(States& states, at::Tensor const& parameter)
    -> std::unique_ptr<torch::optim::OptimizerParamState>& {
  if constexpr (std::same_as<typename States::key_type, std::string>) {
    return states[fmt::format("{}", static_cast<void const*>(parameter.unsafeGetTensorImpl()))];
  } else {
    return states[parameter.unsafeGetTensorImpl()];
  }
}

/// Calls `update(parameter, gradient, options, state)` for each parameter that has a gradient.
///
/// Errors: `backend` for a sparse gradient.
template <class Options, class State, class F>
void update_each(torch::optim::Optimizer& optimizer, std::string_view name, F const& update) {
  torch::NoGradGuard const no_grad;
  for (auto& group : optimizer.param_groups()) {
    auto const& options = static_cast<Options const&>(group.options());
    for (auto const& parameter : group.params()) {
      auto const& gradient = parameter.grad();
      if (!gradient.defined()) continue;
      if (gradient.is_sparse()) {
        throw Error{Errc::backend, fmt::format("a step of {}", name), "a parameter's gradient is sparse",
                    "make the embedding without EmbeddingOptions::sparse"};
      }
      auto& state = state_in(optimizer.state(), parameter);
      if (!state) state = std::make_unique<State>();
      update(parameter, gradient, options, static_cast<State&>(*state));
    }
  }
}

/// A norm of all elements, of 32 bits and more.
[[nodiscard]] inline auto norm_of(at::Tensor const& tensor) -> at::Tensor {
  auto const is_short = tensor.scalar_type() == at::kHalf || tensor.scalar_type() == at::kBFloat16;
  return (is_short ? tensor.to(at::kFloat) : tensor).norm();
}

/// `ratio` where both norms are above 0, else 1.
[[nodiscard]] inline auto trust_ratio(at::Tensor const& ratio, at::Tensor const& first, at::Tensor const& second)
    -> at::Tensor {
  return at::where((first > 0).logical_and(second > 0), ratio, at::ones_like(ratio));
}

/// Checks an optimizer's options. Errors: `invalid_config` for one out of its range.
struct OptionChecks {
  char const* optimizer;

  void not_negative(char const* option, double value) const {
    if (!(value >= 0)) refuse(option, value, "0 or more");
  }
  void from_0_to_1(char const* option, double value) const {
    if (!(value >= 0 && value <= 1)) refuse(option, value, "from 0 to 1");
  }
  void from_0_to_below_1(char const* option, double value) const {
    if (!(value >= 0 && value < 1)) refuse(option, value, "from 0 to below 1");
  }

 private:
  [[noreturn]] void refuse(char const* option, double value, char const* range) const {
    throw Error{Errc::invalid_config, fmt::format("{}Options::{}", optimizer, option),
                fmt::format("must be {} (got {})", range, value), fmt::format("give one that is {}", range)};
  }
};

template <class T>
void write_member(torch::serialize::OutputArchive& archive, std::string const& name, T const& value) {
  archive.write(name, c10::IValue{value});
}

/// Errors: `c10::Error` for one that is not there.
template <class T>
[[nodiscard]] auto read_member(torch::serialize::InputArchive& archive, std::string const& name) -> T {
  c10::IValue value;
  archive.read(name, value);
  return value.to<T>();
}

}  // namespace raytrain::detail

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
