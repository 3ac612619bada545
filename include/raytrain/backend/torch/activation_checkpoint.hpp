// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <concepts>
#include <cstddef>
#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <raytrain/backend/torch/detail/recomputed_function.hpp>
#include <raytrain/backend/torch/torch_module.hpp>

namespace raytrain {

namespace detail {

using TensorVector = std::vector<at::Tensor>;

template <class T>
inline constexpr bool is_tensors = std::same_as<T, at::Tensor> || std::same_as<T, TensorVector>;
template <class... T>
inline constexpr bool is_tensors<std::tuple<T...>> = (std::same_as<T, at::Tensor> && ...);

/// Tensors, or one vector of them.
template <class... T>
concept TensorArguments = sizeof...(T) > 0 &&
                          (is_tensors<std::tuple<T...>> || std::same_as<std::tuple<T...>, std::tuple<TensorVector>>);

inline auto to_vector(TensorVector tensors) -> TensorVector { return tensors; }
template <std::same_as<at::Tensor>... T>
auto to_vector(T const&... tensors) -> TensorVector {
  return {tensors...};
}
template <class... T>
auto to_vector(std::tuple<T...> const& tensors) -> TensorVector {
  return std::apply([](T const&... each) { return TensorVector{each...}; }, tensors);
}

template <class T>
auto from_vector(TensorVector tensors) -> T {
  if constexpr (std::same_as<T, TensorVector>) {
    return tensors;
  } else if constexpr (std::same_as<T, at::Tensor>) {
    return tensors[0];
  } else {
    return [&]<std::size_t... I>(std::index_sequence<I...>) { return T{tensors[I]...}; }
    (std::make_index_sequence<std::tuple_size_v<T>>{});
  }
}

}  // namespace detail

/// The results of `function(inputs...)`, of whose way there nothing is kept but the inputs: the function runs without a
/// graph, and once more when a backward comes to it, with the graph that gives the gradients. For networks whose
/// activations do not fit into memory.
///
///     for (auto const& block : blocks) {
///       x = raytrain::activation_checkpoint(block, [block](torch::Tensor x) { return x + block->forward(x); }, x);
///     }
///
/// The function takes tensors, or one vector of them, and gives a tensor, a tuple or a vector. Those that require
/// gradients reach it as inputs or as parameters of `module`, which is kept as long as the graph: to autograd they all
/// are the inputs of one operation. So each parameter gets its whole gradient once in a backward, as `prepare_model`
/// averages it, also with `accumulate`, `ModelOptions::overlap` and hooks. A backward within the backward, as PyTorch's
/// reentrant variant has it, would leave a part of it in `grad()` before.
///
/// Give the smallest module: the gradients of all its parameters are complete only when the function has run again. One
/// that the function does not use has none from it, and its hooks may get an undefined tensor.
///
/// When it runs again it draws the same numbers from the default generator, as dropout does, on the CPU and on the GPU
/// of the inputs or the parameters, computes in the precision of the first time, and begins with the same buffers of
/// the module. What it does to them then is lost, so that running statistics take a batch in once. From a generator
/// that the function names it draws other numbers. Gradients have the bits that they have without this; but a sum of
/// three or more, of which this gives two, may round otherwise.
///
/// Threads: any; the function may run again on the thread of the backward.
/// Errors:  `invalid_call` for inputs or results that are undefined, and for an input that is changed in place; by the
///          backward for a tensor with a gradient from elsewhere, for results that depend on none, for another number
///          of them, and with create_graph. `c10::Error` by the backward when inputs or parameters have changed.
/// Cost:    the function's forward once more; a comparison of the module's buffers, and a copy of those that it
///          changes; the state of the generator, of 5 KB.
/// Source:  T. Chen, B. Xu, C. Zhang, C. Guestrin, "Training Deep Nets with Sublinear Memory Cost", 2016.
template <TorchModule M, class F, class... T>
requires detail::TensorArguments<T...> && std::invocable<F&, T const&...>
[[nodiscard]] auto activation_checkpoint(M const& module, F function, T const&... inputs) {
  using Result = std::invoke_result_t<F&, T const&...>;
  static_assert(detail::is_tensors<Result>,
                "raytrain: the function gives a torch::Tensor, or several in a std::tuple or a std::vector");
  auto call = [function = std::move(function)](detail::TensorVector const& given) mutable {
    if constexpr ((std::same_as<T, at::Tensor> && ...)) {
      return detail::to_vector(std::apply(function, detail::from_vector<std::tuple<T...>>(given)));
    } else {
      return detail::to_vector(function(given));
    }
  };
  return detail::from_vector<Result>(
      detail::recomputed(raytrain::module_of(module), std::move(call), detail::to_vector(inputs...)));
}

/// The same for `forward` of the module:
///
///     x = raytrain::activation_checkpoint(block, x);
template <TorchModule M, class... T>
requires detail::TensorArguments<T...>
[[nodiscard]] auto activation_checkpoint(M const& module, T const&... inputs) {
  auto held = [&] {
    if constexpr (std::derived_from<M, torch::nn::Module>) {
      return const_cast<M*>(&module);  // as in `module_of`
    } else {
      return module;
    }
  }();
  return activation_checkpoint(
      module, [held](T const&... given) mutable { return held->forward(given...); }, inputs...);
}

}  // namespace raytrain
