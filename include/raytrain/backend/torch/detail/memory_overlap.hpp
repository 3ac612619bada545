// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

namespace raytrain::detail {

/// Refuses a module of whose parameters and buffers two share some memory, and are not the same tensor: a parameter
/// that is moved would no longer share it.
///
/// Errors: `backend`, with the names of both.
void check_own_memory(torch::nn::Module const& module);

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/detail/memory_overlap-inl.hpp>
#endif
