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
[[nodiscard]] auto text_of_shared_parameter(std::vector<std::unique_ptr<GradientAverager>> const& averagers)
    -> std::string;

/// While one model's exchange is under way beside a backward, the other model would average what some ranks have of it
/// and others not yet.
///
/// Errors: `invalid_call` if two models have a parameter in common of which one overlaps.
void check_no_shared_overlap(std::vector<std::unique_ptr<GradientAverager>> const& averagers);

/// Where it is to be measured whether exchanges overlap, those of models with a parameter in common do not.
void keep_shared_behind(std::vector<std::unique_ptr<GradientAverager>> const& averagers);

/// Windows, joined batches and virtual shards keep a sum of gradients for each model: of a parameter of two models one
/// sum would take the place of the other.
///
/// Errors: `invalid_call` unless the text is empty.
void check_none_is_shared(std::string const& text, char const* attempted);

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/detail/model_checks-inl.hpp>
#endif
