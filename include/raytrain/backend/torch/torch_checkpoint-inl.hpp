// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <string>
#include <vector>

#include <raytrain/backend/torch/detail/torch_call.hpp>
#include <raytrain/backend/torch/torch_checkpoint.hpp>
#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/checkpoint/checkpoint_draft.hpp>
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

RAYTRAIN_TORCH_INLINE auto TensorFormat::shape() const -> std::string { return shape_text(sizes, type); }

RAYTRAIN_TORCH_INLINE auto formats_of(torch::nn::Module const& module) -> std::vector<TensorFormat> {
  std::vector<TensorFormat> formats;
  auto const add = [&](auto const& items) {
    for (auto const& item : items) {
      formats.push_back({item.key(), item.value().sizes().vec(), item.value().scalar_type()});
    }
  };
  add(module.named_parameters());
  add(module.named_buffers());
  return formats;
}

RAYTRAIN_TORCH_INLINE auto add_model(CheckpointDraft& draft, torch::nn::Module const& module) -> bool {
  auto const tensors = torch_call("storing a state", [&] { return state_tensors(module); });
  if (tensors) add_tensors(draft, tensors_name<torch::nn::Module>, *tensors, {{"format", "pt"}});
  return tensors.has_value();
}

RAYTRAIN_TORCH_INLINE void load_model(BytesView file, torch::nn::Module& module, std::string_view attempted) {
  auto tensors = torch_call(attempted, [&] { return state_tensors(module); });
  if (!tensors) {
    throw Error{Errc::backend, std::string{attempted},
                "this model stores more than parameters and buffers, and no such file holds that", state_remedy};
  }
  fill_tensors(file, *tensors, attempted);
}

}  // namespace raytrain::detail
