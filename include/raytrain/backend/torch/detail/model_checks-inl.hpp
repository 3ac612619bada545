// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <raytrain/backend/torch/detail/gradient_averager.hpp>
#include <raytrain/backend/torch/detail/model_checks.hpp>
#include <raytrain/core/error.hpp>
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

RAYTRAIN_TORCH_INLINE auto text_of_shared_parameter(std::vector<std::unique_ptr<GradientAverager>> const& averagers)
    -> std::string {
  struct Owner {
    std::uint16_t model;
    std::string name;
  };
  std::unordered_map<c10::TensorImpl const*, Owner> owners;
  for (auto const& averager : averagers) {
    for (auto const& [name, parameter] : averager->parameters()) {
      auto const [owner, is_new] =
          owners.try_emplace(parameter.unsafeGetTensorImpl(), Owner{averager->model_number(), name});
      if (is_new) continue;
      return fmt::format("'{}' of model {}, which is '{}' of model {}", name, averager->model_number(),
                         owner->second.name, owner->second.model);
    }
  }
  return {};
}

RAYTRAIN_TORCH_INLINE void check_none_is_shared(std::string const& text, char const* attempted) {
  if (text.empty()) return;
  throw Error{Errc::invalid_call, attempted, "two models have a parameter in common: " + text,
              "prepare one module that holds both"};
}

}  // namespace raytrain::detail
