// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <memory>
#include <utility>
#include <vector>

#include <raytrain/backend/torch/detail/parameter_updates.hpp>
#include <raytrain/backend/torch/lars.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain {

RAYTRAIN_TORCH_INLINE void LARSOptions::serialize(torch::serialize::InputArchive& archive) {
  lr(detail::read_member<double>(archive, "lr"));
  momentum(detail::read_member<double>(archive, "momentum"));
  weight_decay(detail::read_member<double>(archive, "weight_decay"));
  trust_coefficient(detail::read_member<double>(archive, "trust_coefficient"));
  trust_ratio(detail::read_member<bool>(archive, "trust_ratio"));
}

RAYTRAIN_TORCH_INLINE void LARSOptions::serialize(torch::serialize::OutputArchive& archive) const {
  detail::write_member(archive, "lr", lr());
  detail::write_member(archive, "momentum", momentum());
  detail::write_member(archive, "weight_decay", weight_decay());
  detail::write_member(archive, "trust_coefficient", trust_coefficient());
  detail::write_member(archive, "trust_ratio", trust_ratio());
}

RAYTRAIN_TORCH_INLINE void LARSParamState::serialize(torch::serialize::InputArchive& archive) {
  momentum_buffer(detail::read_member<torch::Tensor>(archive, "momentum_buffer"));
}

RAYTRAIN_TORCH_INLINE void LARSParamState::serialize(torch::serialize::OutputArchive& archive) const {
  detail::write_member(archive, "momentum_buffer", momentum_buffer());
}

namespace detail {

RAYTRAIN_TORCH_INLINE void check_options(LARSOptions const& options) {
  check_option(options.lr() >= 0, "LARS", "lr", options.lr(), "0 or more");
  check_option(options.momentum() >= 0, "LARS", "momentum", options.momentum(), "0 or more");
  check_option(options.weight_decay() >= 0, "LARS", "weight_decay", options.weight_decay(), "0 or more");
  check_option(options.trust_coefficient() >= 0, "LARS", "trust_coefficient", options.trust_coefficient(), "0 or more");
}

}  // namespace detail

RAYTRAIN_TORCH_INLINE LARS::LARS(std::vector<torch::optim::OptimizerParamGroup> groups, LARSOptions const& defaults)
    : Optimizer{std::move(groups), std::make_unique<LARSOptions>(defaults)} {
  detail::check_options(defaults);
  for (auto const& group : param_groups()) detail::check_options(static_cast<LARSOptions const&>(group.options()));
}

RAYTRAIN_TORCH_INLINE auto LARS::step(LossClosure closure) -> at::Tensor {
  auto loss = detail::loss_of(closure);
  detail::update_each<LARSOptions, LARSParamState>(
      *this, "LARS",
      [](at::Tensor const& parameter, at::Tensor const& given, LARSOptions const& options, LARSParamState& state) {
        if (!state.momentum_buffer().defined()) {
          state.momentum_buffer(at::zeros_like(parameter, at::MemoryFormat::Preserve));
        }
        auto const decay = options.weight_decay();
        auto step = (decay == 0 ? given.clone() : given.add(parameter, decay)).mul_(options.lr());
        if (options.trust_ratio()) {
          auto const of_parameter = detail::norm_of(parameter);
          auto const of_gradient = detail::norm_of(given);
          auto const ratio = options.trust_coefficient() * of_parameter / (of_gradient + decay * of_parameter);
          step.mul_(detail::trust_ratio(ratio, of_parameter, of_gradient));
        }
        state.momentum_buffer().mul_(options.momentum()).add_(step);
        parameter.sub_(state.momentum_buffer());
      });
  return loss;
}

RAYTRAIN_TORCH_INLINE void LARS::save(torch::serialize::OutputArchive& archive) const {
  torch::optim::serialize<LARSParamState, LARSOptions>(archive, *this);
}

RAYTRAIN_TORCH_INLINE void LARS::load(torch::serialize::InputArchive& archive) {
  torch::optim::serialize<LARSParamState, LARSOptions>(archive, *this);
}

}  // namespace raytrain
