// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <tuple>
#include <utility>

#include <torch/torch.h>

#include <raytrain/backend/torch/optimizers.hpp>
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
  detail::OptionChecks const checks{"Adadelta"};
  checks.not_negative("lr", lr());
  checks.from_0_to_1("rho", rho());
  checks.not_negative("eps", eps());
  checks.not_negative("weight_decay", weight_decay());
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
  detail::OptionChecks const checks{"LAMB"};
  checks.not_negative("lr", lr());
  checks.from_0_to_below_1("betas", std::get<0>(betas()));
  checks.from_0_to_below_1("betas", std::get<1>(betas()));
  checks.not_negative("eps", eps());
  checks.not_negative("weight_decay", weight_decay());
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
  detail::OptionChecks const checks{"LARS"};
  checks.not_negative("lr", lr());
  checks.not_negative("momentum", momentum());
  checks.not_negative("weight_decay", weight_decay());
  checks.not_negative("trust_coefficient", trust_coefficient());
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
