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

/// The same, of models of which `counts(one, another)` is true.
template <class F>
[[nodiscard]] auto text_of_shared_parameter(std::vector<std::unique_ptr<GradientAverager>> const& averagers,
                                            F const& counts) -> std::string {
  struct Owner {
    GradientAverager const& averager;
    std::string name;
  };
  std::unordered_multimap<c10::TensorImpl const*, Owner> owners;
  for (auto const& averager : averagers) {
    for (auto const& [name, parameter] : averager->parameters()) {
      auto const* const tensor = parameter.unsafeGetTensorImpl();
      for (auto [at, end] = owners.equal_range(tensor); at != end; ++at) {
        auto const& owner = at->second;
        if (!counts(owner.averager, *averager)) continue;
        return fmt::format("'{}' of model {}, which is '{}' of model {}", name, averager->model_number(), owner.name,
                           owner.averager.model_number());
      }
      owners.emplace(tensor, Owner{*averager, name});
    }
  }
  return {};
}

RAYTRAIN_TORCH_INLINE auto text_of_shared_parameter(std::vector<std::unique_ptr<GradientAverager>> const& averagers)
    -> std::string {
  return text_of_shared_parameter(averagers, [](auto const&, auto const&) { return true; });
}

RAYTRAIN_TORCH_INLINE void check_no_shared_overlap(std::vector<std::unique_ptr<GradientAverager>> const& averagers) {
  auto const text = text_of_shared_parameter(
      averagers, [](auto const& one, auto const& another) { return one.overlaps() || another.overlaps(); });
  if (text.empty()) return;
  throw Error{Errc::invalid_call, "averaging gradients during a backward",
              "two models have a parameter in common: " + text,
              "prepare one module that holds both, or set ModelOptions::overlap to Overlap::off for both"};
}

RAYTRAIN_TORCH_INLINE void keep_shared_behind(std::vector<std::unique_ptr<GradientAverager>> const& averagers) {
  std::unordered_set<std::uint16_t> sharing;  // numbers of models
  (void)text_of_shared_parameter(averagers, [&](auto const& one, auto const& another) {
    sharing.insert({one.model_number(), another.model_number()});
    return false;
  });
  for (auto const& averager : averagers) {
    if (sharing.contains(averager->model_number())) averager->keep_behind();
  }
}

RAYTRAIN_TORCH_INLINE void check_none_is_shared(std::string const& text, char const* attempted) {
  if (text.empty()) return;
  throw Error{Errc::invalid_call, attempted, "two models have a parameter in common: " + text,
              "prepare one module that holds both"};
}

}  // namespace raytrain::detail
