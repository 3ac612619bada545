// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <functional>
#include <vector>

namespace raytrain::detail {

/// Of tensors, which may be undefined, to tensors.
using TensorsFunction = std::function<std::vector<at::Tensor>(std::vector<at::Tensor> const&)>;

/// What `activation_checkpoint` does, for a function that uses the module's parameters.
///
/// Errors: as there.
[[nodiscard]] auto recomputed(torch::nn::Module const& module, TensorsFunction function,
                              std::vector<at::Tensor> const& inputs) -> std::vector<at::Tensor>;

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/detail/recomputed_function-inl.hpp>
#endif
