// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <vector>

namespace raytrain::detail {

/// One learning rate for each parameter group; empty where the optimizer's options have none.
[[nodiscard]] auto learning_rates(torch::optim::Optimizer& optimizer) -> std::vector<double>;

/// Sets the learning rates that are stored with an optimizer: LibTorch stores them, but does not load them.
void load_learning_rates(torch::serialize::InputArchive& stored, torch::optim::Optimizer& optimizer);

/// How often a scheduler was stepped, which is all its state: the rates are the optimizer's. LibTorch's schedulers have
/// neither `save` nor `load`.
struct SchedulerSteps : torch::optim::LRScheduler {
  [[nodiscard]] static auto of(torch::optim::LRScheduler& scheduler) -> unsigned&;
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/detail/learning_rates-inl.hpp>
#endif
