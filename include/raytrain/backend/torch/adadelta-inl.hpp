// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <memory>
#include <utility>
#include <vector>

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

namespace detail {

RAYTRAIN_TORCH_INLINE void check_options(AdadeltaOptions const& options) {
  check_option(options.lr() >= 0, "Adadelta", "lr", options.lr(), "0 or more");
  check_option(options.rho() >= 0 && options.rho() <= 1, "Adadelta", "rho", options.rho(), "from 0 to 1");
  check_option(options.eps() >= 0, "Adadelta", "eps", options.eps(), "0 or more");
  check_option(options.weight_decay() >= 0, "Adadelta", "weight_decay", options.weight_decay(), "0 or more");
}

}  // namespace detail

RAYTRAIN_TORCH_INLINE Adadelta::Adadelta(std::vector<torch::optim::OptimizerParamGroup> groups,
                                         AdadeltaOptions const& defaults)
    : Optimizer{std::move(groups), std::make_unique<AdadeltaOptions>(defaults)} {
  detail::check_options(defaults);
  for (auto const& group : param_groups()) detail::check_options(static_cast<AdadeltaOptions const&>(group.options()));
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

RAYTRAIN_TORCH_INLINE void Adadelta::save(torch::serialize::OutputArchive& archive) const {
  torch::optim::serialize<AdadeltaParamState, AdadeltaOptions>(archive, *this);
}

RAYTRAIN_TORCH_INLINE void Adadelta::load(torch::serialize::InputArchive& archive) {
  torch::optim::serialize<AdadeltaParamState, AdadeltaOptions>(archive, *this);
}

}  // namespace raytrain
