// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <concepts>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <torch/torch.h>

#include <raytrain/core/error.hpp>

/// What raytrain's optimizers have in common that LibTorch does not bring.
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
