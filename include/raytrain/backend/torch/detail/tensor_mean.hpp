// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <vector>

#include <raytrain/collective/collective.hpp>

namespace raytrain::detail {

/// Makes floating-point and complex tensors their mean over all ranks, the same bits on each, and others rank 0's.
/// Those of 16 bits are added in 32, and rounded once.
///
/// Errors: those of the collective: `rank_mismatch` when a rank's tensors have other sizes.
/// Cost:   one all_reduce for each of float and double, and the memory of its array; a broadcast for others.
void average_tensors(std::vector<at::Tensor> const& tensors, Collective& collective);

/// The same for a model's parameters and buffers, each once. `number`: the model's, which the ranks compare.
///
/// Errors: also `rank_mismatch` where a rank has another model, with what rank 0 and another one have.
void average_model(torch::nn::Module const& module, int number, Collective& collective);

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/detail/tensor_mean-inl.hpp>
#endif
