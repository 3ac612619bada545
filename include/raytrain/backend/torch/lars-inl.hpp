// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

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

RAYTRAIN_TORCH_INLINE void LARSOptions::validate() const {
  detail::check_option(lr() >= 0, "LARS", "lr", lr(), "0 or more");
  detail::check_option(momentum() >= 0, "LARS", "momentum", momentum(), "0 or more");
  detail::check_option(weight_decay() >= 0, "LARS", "weight_decay", weight_decay(), "0 or more");
  detail::check_option(trust_coefficient() >= 0, "LARS", "trust_coefficient", trust_coefficient(), "0 or more");
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

}  // namespace raytrain
