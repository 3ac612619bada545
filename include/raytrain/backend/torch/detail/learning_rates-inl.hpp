// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <string>
#include <vector>

#include <raytrain/backend/torch/detail/learning_rates.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain::detail {

RAYTRAIN_TORCH_INLINE auto learning_rates(torch::optim::Optimizer& optimizer) -> std::vector<double> {
  std::vector<double> rates;
  try {
    for (auto& group : optimizer.param_groups()) rates.push_back(group.options().get_lr());
  } catch (c10::Error const&) {
    rates.clear();
  }
  return rates;
}

RAYTRAIN_TORCH_INLINE void load_learning_rates(torch::serialize::InputArchive& stored,
                                               torch::optim::Optimizer& optimizer) {
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

RAYTRAIN_TORCH_INLINE auto SchedulerSteps::of(torch::optim::LRScheduler& scheduler) -> unsigned& {
  return scheduler.*(&SchedulerSteps::step_count_);
}

}  // namespace raytrain::detail
