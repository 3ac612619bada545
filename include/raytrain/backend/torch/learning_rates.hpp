// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <string>
#include <vector>

namespace raytrain::detail {

/// One learning rate for each parameter group; empty where the optimizer's options have none.
[[nodiscard]] inline auto learning_rates(torch::optim::Optimizer& optimizer) -> std::vector<double> {
  std::vector<double> rates;
  try {
    for (auto& group : optimizer.param_groups()) rates.push_back(group.options().get_lr());
  } catch (c10::Error const&) {
    rates.clear();
  }
  return rates;
}

/// Sets the learning rates that are stored with an optimizer: LibTorch stores them, but does not load them.
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

/// How often a scheduler was stepped, which is all its state: the rates are the optimizer's. LibTorch's schedulers have
/// neither `save` nor `load`.
struct SchedulerSteps : torch::optim::LRScheduler {
  [[nodiscard]] static auto of(torch::optim::LRScheduler& scheduler) -> unsigned& {
    return scheduler.*(&SchedulerSteps::step_count_);
  }
};

}  // namespace raytrain::detail
