// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <memory>
#include <vector>

#include <raytrain/backend/torch/detail/gradient_averager.hpp>

namespace raytrain::detail {

/// Whether the optimizer has a parameter whose gradients nobody averages, and that is of no local model: each worker
/// trains it by itself, beginning with its own.
[[nodiscard]] auto trains_unprepared(torch::optim::Optimizer const& optimizer,
                                     std::vector<std::unique_ptr<GradientAverager>> const& averagers,
                                     std::vector<std::weak_ptr<torch::nn::Module const>> const& local) -> bool;

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/detail/unprepared_models-inl.hpp>
#endif
