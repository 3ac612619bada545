// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <concepts>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

#include <raytrain/backend/torch/script_module.hpp>

namespace raytrain {

namespace detail {
template <class T>
inline constexpr bool is_shared_module = false;
template <class T>
inline constexpr bool is_shared_module<std::shared_ptr<T>> = std::derived_from<T, torch::nn::Module>;
}  // namespace detail

/// A model the way LibTorch's programs hold it: by value, in the holder that TORCH_MODULE makes, or in a shared_ptr.
template <class M>
concept TorchModule =
    std::derived_from<M, torch::nn::Module> || torch::detail::is_module_holder<M>::value || detail::is_shared_module<M>;

/// What builds a model when it is called, or loads TorchScript.
template <class F>
concept TorchModuleFactory =
    !TorchModule<F> && std::invocable<F&> &&
    (TorchModule<std::invoke_result_t<F&>> || std::same_as<std::invoke_result_t<F&>, torch::jit::Module>);

/// The module itself. Errors: `c10::Error` for an empty holder.
template <TorchModule M>
[[nodiscard]] auto module_of(M const& model) -> torch::nn::Module& {
  if constexpr (std::derived_from<M, torch::nn::Module>) {
    return const_cast<M&>(model);  // const says nothing about a module's tensors
  } else if constexpr (detail::is_shared_module<M>) {
    return *model;
  } else {
    return *model.ptr();
  }
}

namespace detail {

/// Null for an empty holder.
template <TorchModule M>
[[nodiscard]] auto module_or_null(M const& model) -> torch::nn::Module const* {
  if constexpr (std::derived_from<M, torch::nn::Module>) {
    return &model;
  } else if constexpr (is_shared_module<M>) {
    return model.get();
  } else {
    return model.is_empty() ? nullptr : model.ptr().get();
  }
}

}  // namespace detail

/// The result of `make` in a form that is called with `->` and `()`: a holder or a shared_ptr as it is, a module by
/// value in a holder of its own, built in place, TorchScript in that of a `ScriptModule`.
template <class F>
[[nodiscard]] auto hold_module(F&& make) {
  using M = std::invoke_result_t<F>;
  if constexpr (std::derived_from<M, torch::nn::Module>) {
    return torch::nn::ModuleHolder<M>{std::shared_ptr<M>{new M(std::invoke(std::forward<F>(make)))}};
  } else if constexpr (std::same_as<M, torch::jit::Module>) {
    return torch::nn::ModuleHolder<ScriptModule>{std::make_shared<ScriptModule>(std::invoke(std::forward<F>(make)))};
  } else {
    return std::invoke(std::forward<F>(make));
  }
}

}  // namespace raytrain
