// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <raytrain/backend/torch/detail/gradient_averager.hpp>
#include <raytrain/backend/torch/detail/worker_step.hpp>

namespace raytrain::detail {

/// What `TorchContext::shadow_backward` does, for a model with this averager; null where nobody averages its gradients.
///
/// Errors: as there.
void shadow_backward(torch::nn::Module const& module, GradientAverager* averager, WorkerStep const& worker_step);

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/detail/shadow_backward-inl.hpp>
#endif
