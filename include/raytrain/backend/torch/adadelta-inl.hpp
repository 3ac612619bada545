// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <raytrain/backend/torch/adadelta.hpp>
#include <raytrain/backend/torch/detail/parameter_updates.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain {

RAYTRAIN_TORCH_INLINE void AdadeltaOptions::serialize(torch::serialize::InputArchive& archive) {
  lr(detail::read_member<double>(archive, "lr"));
  rho(detail::read_member<double>(archive, "rho"));
  eps(detail::read_member<double>(archive, "eps"));
  weight_decay(detail::read_member<double>(archive, "weight_decay"));
}

RAYTRAIN_TORCH_INLINE void AdadeltaOptions::serialize(torch::serialize::OutputArchive& archive) const {
  detail::write_member(archive, "lr", lr());
  detail::write_member(archive, "rho", rho());
  detail::write_member(archive, "eps", eps());
  detail::write_member(archive, "weight_decay", weight_decay());
}

RAYTRAIN_TORCH_INLINE void AdadeltaParamState::serialize(torch::serialize::InputArchive& archive) {
  square_avg(detail::read_member<torch::Tensor>(archive, "square_avg"));
  acc_delta(detail::read_member<torch::Tensor>(archive, "acc_delta"));
}

RAYTRAIN_TORCH_INLINE void AdadeltaParamState::serialize(torch::serialize::OutputArchive& archive) const {
  detail::write_member(archive, "square_avg", square_avg());
  detail::write_member(archive, "acc_delta", acc_delta());
}

RAYTRAIN_TORCH_INLINE void AdadeltaOptions::validate() const {
  detail::check_option(lr() >= 0, "Adadelta", "lr", lr(), "0 or more");
  detail::check_option(rho() >= 0 && rho() <= 1, "Adadelta", "rho", rho(), "from 0 to 1");
  detail::check_option(eps() >= 0, "Adadelta", "eps", eps(), "0 or more");
  detail::check_option(weight_decay() >= 0, "Adadelta", "weight_decay", weight_decay(), "0 or more");
}

RAYTRAIN_TORCH_INLINE auto Adadelta::step(LossClosure closure) -> at::Tensor {
  auto loss = detail::loss_of(closure);
  detail::update_each<AdadeltaOptions, AdadeltaParamState>(
      *this, "Adadelta",
      [](at::Tensor const& parameter, at::Tensor const& given, AdadeltaOptions const& options,
         AdadeltaParamState& state) {
        if (!state.square_avg().defined()) {
          state.square_avg(at::zeros_like(parameter, at::MemoryFormat::Preserve));
          state.acc_delta(at::zeros_like(parameter, at::MemoryFormat::Preserve));
        }
        auto const gradient = options.weight_decay() == 0 ? given : given.add(parameter, options.weight_decay());
        auto const rho = options.rho();
        state.square_avg().mul_(rho).addcmul_(gradient, gradient, 1 - rho);
        auto const deviation = state.square_avg().add(options.eps()).sqrt_();
        auto const delta = state.acc_delta().add(options.eps()).sqrt_().div_(deviation).mul_(gradient);
        state.acc_delta().mul_(rho).addcmul_(delta, delta, 1 - rho);
        parameter.add_(delta, -options.lr());
      });
  return loss;
}

}  // namespace raytrain
