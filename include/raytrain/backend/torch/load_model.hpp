// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <filesystem>
#include <utility>

#include <raytrain/backend/torch/torch_module.hpp>
#include <raytrain/backend/torch/torch_safetensors.hpp>
#include <raytrain/backend/torch/training_state.hpp>
#include <raytrain/checkpoint/checkpoint.hpp>

namespace raytrain {

/// A class of models, or the holder of one, that is built of such arguments.
template <class M, class... Arguments>
concept TorchModuleOf = TorchModule<M> && !detail::is_shared_module<M> && std::constructible_from<M, Arguments...>;

/// The model of a training: what `make` returns, filled from a checkpoint. A module by value comes in a holder, as from
/// `TorchContext::prepare_model`; all else comes as it is.
///
/// It is in the mode in which it was built: call `eval()` before it predicts, as `TorchPredictor` does.
/// Errors: as `load`.
template <TorchModuleFactory F>
[[nodiscard]] auto load_model(Checkpoint const& checkpoint, F make) {
  auto model = raytrain::hold_module(make);
  load(checkpoint, model);
  return model;
}

/// The same with a model of that class, built of the arguments: `load_model<Net>(*result.checkpoint(), 784, 10)`.
template <class M, class... Arguments>
requires TorchModuleOf<M, Arguments...>
[[nodiscard]] auto load_model(Checkpoint const& checkpoint, Arguments&&... arguments) {
  return load_model(checkpoint, [&] { return M(std::forward<Arguments>(arguments)...); });
}

/// The model of a safetensors file. Errors: as `load_safetensors`.
template <TorchModuleFactory F>
[[nodiscard]] auto load_model(std::filesystem::path const& file, F make) {
  auto model = raytrain::hold_module(make);
  load_safetensors(model, file);
  return model;
}

template <class M, class... Arguments>
requires TorchModuleOf<M, Arguments...>
[[nodiscard]] auto load_model(std::filesystem::path const& file, Arguments&&... arguments) {
  return load_model(file, [&] { return M(std::forward<Arguments>(arguments)...); });
}

}  // namespace raytrain
