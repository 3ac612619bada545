// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <memory>
#include <string>
#include <vector>

#include <raytrain/backend/torch/detail/gradient_averager.hpp>

namespace raytrain::detail {

/// Whether the optimizer has a parameter whose gradients nobody averages, and that is of no local model: each worker
/// trains it by itself, beginning with its own.
[[nodiscard]] auto trains_unprepared(torch::optim::Optimizer const& optimizer,
                                     std::vector<std::unique_ptr<GradientAverager>> const& averagers,
                                     std::vector<std::weak_ptr<torch::nn::Module const>> const& local) -> bool;

/// "'weight' of model 2, which is 'trunk.weight' of model 1", of the first parameter that two models have in common;
/// empty where there is none.
[[nodiscard]] auto shared_parameter(std::vector<std::unique_ptr<GradientAverager>> const& averagers) -> std::string;

/// For what leaves sums of several backwards with a model: the other one would put its own in their place.
///
/// Errors: `invalid_call` where there is one.
void check_none_is_shared(std::string const& shared_parameter, char const* attempted);

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/detail/model_checks-inl.hpp>
#endif
