// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <raytrain/backend/torch/detail/stored_tensors.hpp>
#include <raytrain/backend/torch/detail/tensors_of_ranks.hpp>
#include <raytrain/backend/torch/detail/torch_call.hpp>
#include <raytrain/backend/torch/diloco.hpp>
#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/checkpoint/checkpoint_draft.hpp>
#include <raytrain/checkpoint/safetensors.hpp>
#include <raytrain/collective/collective.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain {

RAYTRAIN_TORCH_INLINE void DiLoCoConfig::validate() const {
  auto const refuse = [](char const* field, std::string happened, char const* remedy) {
    throw Error{Errc::invalid_config, std::string{"DiLoCoConfig::"} + field, std::move(happened), remedy};
  };
  if (every < 1) refuse("every", fmt::format("must be at least 1 (got {})", every), "write {.every = 50}");
  if (!(lr > 0 && std::isfinite(lr))) {
    refuse("lr", fmt::format("must be a number above 0 (got {})", lr), "write {.lr = 0.7}");
  }
  if (!(momentum >= 0 && momentum < 1)) {
    refuse("momentum", fmt::format("must be from 0 to below 1 (got {})", momentum), "write {.momentum = 0.9}");
  }
}

RAYTRAIN_TORCH_INLINE DiLoCo::DiLoCo(Collective& collective, torch::nn::Module const& module, int number,
                                     DiLoCoConfig config)
    : collective_{collective}, number_{number}, config_{config} {
  constexpr auto attempted = "DiLoCo";
  config_.validate();
  std::vector<std::string> lines{fmt::format("model {} with {}", number_, settings())};
  for (auto const& item : module.named_parameters()) {
    auto const& own = item.value();
    if (!own.defined() || std::ranges::any_of(parameters_, [&](auto const& each) { return each.own.is_same(own); })) {
      continue;
    }
    if (!own.is_floating_point() && !own.requires_grad()) continue;
    if (!detail::is_storable(own) || !own.is_floating_point() || !can_name_tensor(item.key())) {
      throw Error{Errc::backend, attempted,
                  "parameter '" + shown_tensor_name(item.key()) + "' is none of dense floating-point numbers",
                  "train a model of such parameters"};
    }
    // Changes of 16 bits would be lost in sums.
    auto const type = own.element_size() == 2 ? torch::kFloat : own.scalar_type();
    auto global = own.detach().to(type, /*non_blocking=*/false, /*copy=*/true);
    parameters_.push_back({item.key(), own, global, torch::zeros_like(global)});
    lines.push_back(fmt::format("parameter '{}' {}", item.key(), detail::shape_text(own.sizes(), own.scalar_type())));
  }
  if (parameters_.empty()) {
    throw Error{Errc::backend, attempted, "the model has no parameters", "train a model of floating-point parameters"};
  }
  for (auto const& buffer : module.buffers()) {
    if (buffer.defined()) buffers_.push_back(buffer);
  }
  detail::check_same_on_ranks(collective_, std::move(lines), attempted,
                              "make it on every rank with the same model and settings");
  share_global();
}

RAYTRAIN_TORCH_INLINE auto DiLoCo::step() -> bool {
  if (++steps_ < config_.every) return false;
  make_outer_step();
  steps_ = 0;
  ++rounds_;
  return true;
}

RAYTRAIN_TORCH_INLINE void DiLoCo::make_outer_step() {
  torch::NoGradGuard const no_grad;
  detail::check_same_on_ranks(collective_, {fmt::format("round {} of model {}", rounds_ + 1, number_)},
                              "an outer step of DiLoCo", "call step() as often for each model on every rank");
  std::vector<at::Tensor> changes;
  for (auto const& [name, own, global, momentum] : parameters_) changes.push_back(global.sub(own));
  detail::average_tensors(changes, collective_);
  for (std::size_t i = 0; i < changes.size(); ++i) {
    auto& [name, own, global, momentum] = parameters_[i];
    momentum.mul_(config_.momentum).add_(changes[i]);
    global.sub_(changes[i].add_(momentum, config_.momentum), config_.lr);
  }
  take_global();
  detail::average_tensors(buffers_, collective_);
}

RAYTRAIN_TORCH_INLINE void DiLoCo::share_global() {
  std::vector<at::Tensor> globals;
  for (auto const& parameter : parameters_) globals.push_back(parameter.global);
  detail::broadcast_tensors(collective_, globals, Rank{0});
  take_global();
}

RAYTRAIN_TORCH_INLINE void DiLoCo::take_global() const {
  torch::NoGradGuard const no_grad;
  for (auto const& parameter : parameters_) at::Tensor{parameter.own}.copy_(parameter.global);
}

RAYTRAIN_TORCH_INLINE void DiLoCo::begin_from_model() {
  torch::NoGradGuard const no_grad;
  detail::check_same_on_ranks(collective_, {fmt::format("model {}", number_)}, "beginning a DiLoCo anew",
                              "call begin_from_model() of the same model on every rank");
  for (auto& parameter : parameters_) {
    parameter.global.copy_(parameter.own);
    parameter.momentum.zero_();
  }
  share_global();
  steps_ = 0;
}

RAYTRAIN_TORCH_INLINE auto DiLoCo::tensors() const -> std::vector<detail::NamedTensor> {
  std::vector<detail::NamedTensor> all;
  for (auto const& [name, own, global, momentum] : parameters_) {
    all.push_back({"global." + name, global});
    all.push_back({"momentum." + name, momentum});
  }
  return all;
}

RAYTRAIN_TORCH_INLINE auto DiLoCo::settings() const -> std::string {
  return fmt::format("every {}, lr {}, momentum {}", config_.every, config_.lr, config_.momentum);
}

RAYTRAIN_TORCH_INLINE void DiLoCo::add_to(CheckpointDraft& draft, std::string const& file) const {
  detail::torch_call("storing a DiLoCo", [&] {
    detail::add_tensors(draft, file, tensors(),
                        {{"format", "pt"},
                         {"rounds", std::to_string(rounds_)},
                         {"steps", std::to_string(steps_)},
                         {"settings", settings()}});
  });
}

RAYTRAIN_TORCH_INLINE auto DiLoCo::load_from(Checkpoint const& checkpoint, std::string const& file) -> std::string {
  auto const attempted = "loading " + checkpoint.location() + "/" + file;
  auto const stored = checkpoint.view(file);
  auto metadata = read_tensor_index(stored.view(), attempted).metadata;
  auto const number = [&](char const* key) {
    auto const& text = metadata[key];
    std::int64_t value = -1;
    auto const read = std::from_chars(text.data(), text.data() + text.size(), value);
    if (read.ec == std::errc{} && read.ptr == text.data() + text.size() && value >= 0) return value;
    throw Error{Errc::corrupt_checkpoint, attempted, std::string{"it does not say how many "} + key + " there were",
                "name the file of a DiLoCo"};
  };
  auto const rounds = number("rounds");
  auto const steps = number("steps");
  detail::fill_tensors(stored.view(), tensors(), attempted);
  rounds_ = rounds;
  steps_ = static_cast<int>(std::min<std::int64_t>(steps, config_.every - 1));
  std::string news;
  if (metadata["settings"] != settings()) {
    news = fmt::format("DiLoCo goes on with {}; in the checkpoint it was {}", settings(),
                       shown_tensor_name(metadata["settings"]));
  }
  if (checkpoint.world_size() == collective_.size() || steps == 0) return news;
  take_global();
  steps_ = 0;
  return fmt::format(
      "{}{}a round of DiLoCo, of which {} workers had done {} steps, begins anew from the global parameters, with {} "
      "workers",
      news, news.empty() ? "" : "; ", checkpoint.world_size().value, steps, collective_.size().value);
}

}  // namespace raytrain
