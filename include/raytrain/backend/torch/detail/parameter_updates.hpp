// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <torch/torch.h>

#include <concepts>
#include <memory>
#include <string>
#include <string_view>

#include <raytrain/core/error.hpp>

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

/// Errors: `invalid_config` unless it holds.
inline void check_option(bool holds, char const* optimizer, char const* option, double value, char const* range) {
  if (holds) return;
  throw Error{Errc::invalid_config, fmt::format("{}Options::{}", optimizer, option),
              fmt::format("must be {} (got {})", range, value), fmt::format("give one that is {}", range)};
}

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
