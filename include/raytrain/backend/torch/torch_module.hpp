// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <torch/torch.h>

#include <raytrain/core/error.hpp>

namespace raytrain {

/// TorchScript as a module of LibTorch: what `torch::jit::load` returns is trained, saved and loaded as any model.
///
/// Parameters, buffers (all tensors of it that are no parameters) and submodules are those of the script, by their
/// names there. Loading fills them where they lie; `train`, `eval` and `to` reach the script.
class ScriptModule : public torch::nn::Module {
 public:
  /// Errors: `c10::Error` for an empty script.
  explicit ScriptModule(torch::jit::Module script);

  /// Calls the script's `forward`, which gives one tensor; `script().forward` gives anything else.
  ///
  /// Errors: `backend`, with the last line of what the script's interpreter says, for whatever fails in it.
  template <class... Inputs>
  [[nodiscard]] auto forward(Inputs&&... inputs) -> torch::Tensor {
    return call({c10::IValue{std::forward<Inputs>(inputs)}...});
  }

  void train(bool on = true) override;

  /// With the weights as they are: `model->script().save("net.pt")` writes it for Python's torch.jit.load.
  [[nodiscard]] auto script() noexcept -> torch::jit::Module& { return script_; }

 private:
  /// A tensor that both have, and where the script has it.
  struct Buffer {
    torch::jit::Module owner;
    std::string name;
    torch::Tensor tensor;
    bool may_be_replaced = false;  ///< By another tensor: some method of the script says so.
  };

  auto call(std::vector<c10::IValue> inputs) -> torch::Tensor;

  /// Gives the script what it has of each buffer while it runs: with a graph a copy where the script may put another
  /// tensor in its place, since the graph's must not change before the backward.
  void give_buffers();

  /// Brings what the script has made of buffers into those of the module.
  void take_buffers();

  /// Registers the script's tensors in the module, which both then have, and the same of its submodules. `assigned`:
  /// names of attributes that the script puts others in place of.
  void mirror(torch::nn::Module& module, torch::jit::Module const& script, std::set<std::string> const& assigned);

  torch::jit::Module script_;
  std::vector<Buffer> buffers_;
};

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

/// The module itself. Errors: `c10::Error` for an empty holder or shared_ptr.
template <TorchModule M>
[[nodiscard]] auto module_of(M const& model) -> torch::nn::Module& {
  if constexpr (std::derived_from<M, torch::nn::Module>) {
    return const_cast<M&>(model);  // const says nothing about a module's tensors
  } else if constexpr (detail::is_shared_module<M>) {
    TORCH_CHECK(model != nullptr, "there is no model in the std::shared_ptr");
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

/// Errors: `invalid_call` for an empty holder.
template <TorchModule M>
[[nodiscard]] auto module_to_prepare(M const& model) -> torch::nn::Module& {
  if (module_or_null(model) != nullptr) return raytrain::module_of(model);
  throw Error{Errc::invalid_call, "preparing a model", "its holder or std::shared_ptr is empty",
              "give one, or a function that returns one"};
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

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/torch_module-inl.hpp>
#endif
