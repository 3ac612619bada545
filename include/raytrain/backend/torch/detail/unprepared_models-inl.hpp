// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <algorithm>
#include <memory>
#include <unordered_set>
#include <vector>

#include <raytrain/backend/torch/detail/gradient_averager.hpp>
#include <raytrain/backend/torch/detail/unprepared_models.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain::detail {

RAYTRAIN_TORCH_INLINE auto trains_unprepared(torch::optim::Optimizer const& optimizer,
                                             std::vector<std::unique_ptr<GradientAverager>> const& averagers,
                                             std::vector<std::weak_ptr<torch::nn::Module const>> const& local) -> bool {
  std::unordered_set<c10::TensorImpl const*> of_local;
  for (auto const& each : local) {
    auto const module = each.lock();
    if (module == nullptr) continue;
    for (auto const& parameter : module->parameters()) of_local.insert(parameter.unsafeGetTensorImpl());
  }
  auto const is_unprepared = [&](at::Tensor const& parameter) {
    return parameter.requires_grad() && !of_local.contains(parameter.unsafeGetTensorImpl()) &&
           std::ranges::none_of(averagers,
                                [&](auto const& each) { return each->gradient_place(parameter) != nullptr; });
  };
  return std::ranges::any_of(optimizer.param_groups(),
                             [&](auto const& group) { return std::ranges::any_of(group.params(), is_unprepared); });
}

}  // namespace raytrain::detail
