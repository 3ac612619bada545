// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <string>
#include <vector>

namespace raytrain::detail {

/// Of an optimizer's parameter groups; empty for one whose options have none.
[[nodiscard]] inline auto learning_rates(torch::optim::Optimizer& optimizer) -> std::vector<double> {
  std::vector<double> rates;
  try {
    for (auto& group : optimizer.param_groups()) rates.push_back(group.options().get_lr());
  } catch (c10::Error const&) {
    rates.clear();
  }
  return rates;
}

/// LibTorch stores an optimizer's learning rates, and does not load them: this does, from what it has stored.
inline void load_learning_rates(torch::serialize::InputArchive& stored, torch::optim::Optimizer& optimizer) {
  torch::serialize::InputArchive groups;
  if (!stored.try_read("param_groups", groups)) return;
  for (std::size_t i = 0; i < optimizer.param_groups().size(); ++i) {
    torch::serialize::InputArchive group;
    torch::serialize::InputArchive options;
    c10::IValue rate;
    if (!groups.try_read("param_groups/" + std::to_string(i), group) || !group.try_read("options", options) ||
        !options.try_read("lr", rate)) {
      continue;
    }
    optimizer.param_groups()[i].options().set_lr(rate.toDouble());
  }
}

/// LibTorch gives its schedulers neither `save` nor `load`. Rates are the optimizer's; what a scheduler itself has is
/// how often it was stepped.
struct SchedulerSteps : torch::optim::LRScheduler {
  [[nodiscard]] static auto of(torch::optim::LRScheduler& scheduler) -> unsigned& {
    return scheduler.*(&SchedulerSteps::step_count_);
  }
};

}  // namespace raytrain::detail
