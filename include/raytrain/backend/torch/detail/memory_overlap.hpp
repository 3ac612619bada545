// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <vector>

namespace raytrain::detail {

/// Refuses to move parameters of a module that share some memory with others, or with buffers, and are not the same
/// tensor: they would no longer share it.
///
/// Errors: `backend`, with the names of both.
void check_own_memory(torch::nn::Module const& module, std::vector<at::Tensor> const& moved);

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/detail/memory_overlap-inl.hpp>
#endif
