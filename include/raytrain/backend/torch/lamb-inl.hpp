// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <cmath>
#include <cstdint>
#include <tuple>
#include <utility>

#include <raytrain/backend/torch/detail/parameter_updates.hpp>
#include <raytrain/backend/torch/lamb.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain {

RAYTRAIN_TORCH_INLINE void LAMBOptions::serialize(torch::serialize::InputArchive& archive) {
  lr(detail::read_member<double>(archive, "lr"));
  betas(detail::read_member<std::tuple<double, double>>(archive, "betas"));
  eps(detail::read_member<double>(archive, "eps"));
  weight_decay(detail::read_member<double>(archive, "weight_decay"));
  trust_ratio(detail::read_member<bool>(archive, "trust_ratio"));
}

RAYTRAIN_TORCH_INLINE void LAMBOptions::serialize(torch::serialize::OutputArchive& archive) const {
  detail::write_member(archive, "lr", lr());
  detail::write_member(archive, "betas", betas());
  detail::write_member(archive, "eps", eps());
  detail::write_member(archive, "weight_decay", weight_decay());
  detail::write_member(archive, "trust_ratio", trust_ratio());
}

RAYTRAIN_TORCH_INLINE void LAMBParamState::serialize(torch::serialize::InputArchive& archive) {
  step(detail::read_member<std::int64_t>(archive, "step"));
  exp_avg(detail::read_member<torch::Tensor>(archive, "exp_avg"));
  exp_avg_sq(detail::read_member<torch::Tensor>(archive, "exp_avg_sq"));
}

RAYTRAIN_TORCH_INLINE void LAMBParamState::serialize(torch::serialize::OutputArchive& archive) const {
  detail::write_member(archive, "step", step());
  detail::write_member(archive, "exp_avg", exp_avg());
  detail::write_member(archive, "exp_avg_sq", exp_avg_sq());
}

RAYTRAIN_TORCH_INLINE void LAMBOptions::validate() const {
  detail::check_option(lr() >= 0, "LAMB", "lr", lr(), "0 or more");
  detail::check_option(std::get<0>(betas()) >= 0 && std::get<0>(betas()) < 1, "LAMB", "betas", std::get<0>(betas()),
                       "from 0 to below 1");
  detail::check_option(std::get<1>(betas()) >= 0 && std::get<1>(betas()) < 1, "LAMB", "betas", std::get<1>(betas()),
                       "from 0 to below 1");
  detail::check_option(eps() >= 0, "LAMB", "eps", eps(), "0 or more");
  detail::check_option(weight_decay() >= 0, "LAMB", "weight_decay", weight_decay(), "0 or more");
}

RAYTRAIN_TORCH_INLINE auto LAMB::step(LossClosure closure) -> at::Tensor {
  auto loss = detail::loss_of(closure);
  detail::update_each<LAMBOptions, LAMBParamState>(
      *this, "LAMB",
      [](at::Tensor const& parameter, at::Tensor const& given, LAMBOptions const& options, LAMBParamState& state) {
        if (!state.exp_avg().defined()) {
          state.exp_avg(at::zeros_like(parameter, at::MemoryFormat::Preserve));
          state.exp_avg_sq(at::zeros_like(parameter, at::MemoryFormat::Preserve));
        }
        state.step(state.step() + 1);
        auto const [beta1, beta2] = options.betas();
        state.exp_avg().mul_(beta1).add_(given, 1 - beta1);
        state.exp_avg_sq().mul_(beta2).addcmul_(given, given, 1 - beta2);
        auto const steps = static_cast<double>(state.step());
        auto const root = (state.exp_avg_sq() / (1 - std::pow(beta2, steps))).sqrt_().add_(options.eps());
        auto step = (state.exp_avg() / (1 - std::pow(beta1, steps))).div_(root);
        if (options.weight_decay() != 0) step.add_(parameter, options.weight_decay());
        if (options.trust_ratio()) {
          auto const of_parameter = detail::norm_of(parameter);
          auto const of_step = detail::norm_of(step);
          step.mul_(detail::trust_ratio(of_parameter / of_step, of_parameter, of_step));
        }
        parameter.add_(step, -options.lr());
      });
  return loss;
}

}  // namespace raytrain
