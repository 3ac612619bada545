// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <filesystem>
#include <string>
#include <vector>

#include <raytrain/backend/torch/detail/torch_call.hpp>
#include <raytrain/backend/torch/torch_module.hpp>

namespace raytrain {

/// Which tensors of a file a model is.
struct SafetensorsOptions {
  std::string prefix{};  ///< Of the names in the file that are this model's, as "transformer."; empty: all are.
  bool strict = true;    ///< false: what the model or the file alone has is left as it is.
};

/// Names that only one of both has, as PyTorch's load_state_dict tells them.
struct UnmatchedTensors {
  std::vector<std::string> missing;     ///< From the file, without a prefix.
  std::vector<std::string> unexpected;  ///< In the file, with the prefix.
};

namespace detail {
void save_safetensors(torch::nn::Module const& module, std::filesystem::path const& file);
auto load_safetensors(torch::nn::Module& module, std::filesystem::path const& file, SafetensorsOptions const& options)
    -> UnmatchedTensors;
}  // namespace detail

/// Stores a model's parameters and buffers, by the names that Python's state_dict of the same net has: what
/// `safetensors.torch.load_file` returns there, `load_state_dict` takes. Of a training's ranks one calls it.
///
/// Whatever happens on the way, the file is the one of before or the whole new one.
/// Errors: `backend` for a model that stores more than these (TorchScript, see `ScriptModule`, does not), and for a
///         tensor that such a file cannot hold; `io`.
/// Cost:   the memory of the file, once.
template <TorchModule M>
void save_safetensors(M const& model, std::filesystem::path const& file) {
  detail::save_safetensors(detail::torch_call(
                               "saving a model", [&]() -> auto& { return raytrain::module_of(model); }),
                           file);
}

/// Fills a model with a file that `save_safetensors`, a training's checkpoint or Python has written: parameters and
/// buffers of the same names, shapes and types, which stay where they lie. Of a folder, as Hugging Face's libraries
/// write, it takes the model.safetensors in it, of a checkpoint's folder with the bytes that were committed. A name
/// that a file lacks since it has the tensor under another one of its names (weights that two modules share) is none
/// that is missing.
///
/// Returns nothing but empty lists where `strict` is set.
/// Errors: `not_found`; `io`; `corrupt_checkpoint` for a file that is not of that format as a whole, or has other bytes
///         than its checkpoint's manifest.json says; `foreign_run` for a newer raytrain's checkpoint; `backend` for
///         names, shapes and types that are missing, added or others, and for different tensors where the model has
///         one by two names, which are listed, before anything is filled. Who shortens the file meanwhile
///         ends the process by SIGBUS.
template <TorchModule M>
auto load_safetensors(M& model, std::filesystem::path const& file, SafetensorsOptions const& options = {})
    -> UnmatchedTensors {
  return detail::load_safetensors(detail::torch_call(
                                      "loading a model", [&]() -> auto& { return raytrain::module_of(model); }),
                                  file, options);
}

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/torch_safetensors-inl.hpp>
#endif
