// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <typeinfo>
#include <unordered_map>
#include <utility>
#include <vector>

#include <raytrain/backend/torch/detail/flat_parameters.hpp>
#include <raytrain/backend/torch/detail/gather_pieces.hpp>
#include <raytrain/backend/torch/detail/memory_overlap.hpp>
#include <raytrain/backend/torch/detail/optimizer_slice.hpp>
#include <raytrain/backend/torch/detail/step_timer.hpp>
#include <raytrain/backend/torch/detail/stored_optimizer.hpp>
#include <raytrain/backend/torch/detail/stored_tensors.hpp>
#include <raytrain/backend/torch/detail/tensors_of_ranks.hpp>
#include <raytrain/backend/torch/sharded_optimizer.hpp>
#include <raytrain/checkpoint/safetensors.hpp>
#include <raytrain/collective/collective.hpp>
#include <raytrain/collective/wrapped_collective.hpp>
#include <raytrain/core/current_error.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain::detail {

constexpr auto preparing = "preparing an optimizer";

}  // namespace raytrain::detail

namespace raytrain {

RAYTRAIN_TORCH_INLINE ShardedOptimizer::ShardedOptimizer(Setup setup)
    : Optimizer{setup.groups, std::move(setup.defaults)},
      collective_{&setup.collective},
      on_device_{setup.on_device},
      listed_{listed()},
      make_{setup.make},
      is_local_{std::move(setup.is_local)},
      timer_{std::move(setup.timer)} {
  take_options_as_made(setup.groups);
  auto own = listed_parameters(setup);
  std::vector<at::Tensor> moved;
  for (auto const& parameter : own) moved.push_back(parameter.tensor);
  detail::check_own_memory(setup.module, moved);
  auto const model = setup.averager == nullptr ? std::uint16_t{0} : setup.averager->model_number();
  TaggedCollective collective{setup.collective,
                              {.of = detail::CallOf::preparation, .model = model, .part = setup.number}};
  check_same_on_all_ranks(own, collective);
  TaggedCollective const arrays{setup.arrays, collective.tag()};
  auto parameters = std::make_unique<detail::FlatParameters>(std::move(own), arrays);
  slice_ = std::make_unique<detail::OptimizerSlice>(std::move(parameters), std::move(setup.make), param_groups());
}

RAYTRAIN_TORCH_INLINE void ShardedOptimizer::take_options_as_made(Groups const& given) {
  Groups without_parameters;
  for (auto const& group : given) {
    without_parameters.emplace_back(std::vector<at::Tensor>{});
    if (group.has_options()) without_parameters.back().set_options(group.options().clone());
  }
  auto const made = make_(std::move(without_parameters));
  for (std::size_t i = 0; i < given.size(); ++i) {
    param_groups()[i].set_options(made->param_groups()[i].options().clone());
  }
}

RAYTRAIN_TORCH_INLINE auto ShardedOptimizer::is_on_rank_0() const noexcept -> bool {
  return collective_->rank() == Rank{0};
}

RAYTRAIN_TORCH_INLINE auto ShardedOptimizer::listed() const -> std::vector<c10::TensorImpl const*> {
  std::vector<c10::TensorImpl const*> all;
  for (auto const& group : param_groups()) {
    for (auto const& parameter : group.params()) all.push_back(parameter.unsafeGetTensorImpl());
    all.push_back(nullptr);  // the group's end
  }
  return all;
}

RAYTRAIN_TORCH_INLINE auto ShardedOptimizer::listed_parameters(Setup const& setup)
    -> std::vector<detail::FlatParameters::Parameter> {
  struct Listing {
    std::size_t number = 0;
    std::vector<std::size_t> groups;
    bool is_of_module = false;
  };
  std::unordered_map<c10::TensorImpl const*, Listing> listings;
  std::size_t places = 0;
  for (std::size_t group = 0; group < param_groups().size(); ++group) {
    for (auto const& parameter : param_groups()[group].params()) {
      auto& listing = listings.try_emplace(parameter.unsafeGetTensorImpl(), Listing{places, {}, false}).first->second;
      listing.groups.push_back(group);
      ++places;
    }
  }
  std::vector<detail::FlatParameters::Parameter> parameters;
  for (auto const& item : setup.module.named_parameters()) {
    auto const& tensor = item.value();
    auto const found = listings.find(tensor.unsafeGetTensorImpl());
    if (found == listings.end() || std::exchange(found->second.is_of_module, true)) continue;
    if (!tensor.requires_grad() || tensor.numel() == 0) {
      frozen_.push_back({item.key(), tensor});
      continue;
    }
    auto place = setup.averager == nullptr ? nullptr : setup.averager->gradient_place(tensor);
    if (setup.averager != nullptr && place == nullptr) {
      throw Error{Errc::backend, detail::preparing,
                  "parameter '" + item.key() + "' wants a gradient since the model was prepared, which is not averaged",
                  "call prepare_model() again with this model before prepare_optimizer()"};
    }
    if (tensor.device() != setup.device) {
      throw Error{Errc::backend, detail::preparing,
                  "parameter '" + item.key() + "' is on " + tensor.device().str() + ", and this worker trains on " +
                      setup.device.str(),
                  "leave the model where prepare_model() has put it"};
    }
    parameters.push_back({item.key(), tensor, found->second.groups, found->second.number, std::move(place), 0, 0, {}});
  }
  for (std::size_t group = 0; group < param_groups().size(); ++group) {
    for (auto const& parameter : param_groups()[group].params()) {
      if (listings.at(parameter.unsafeGetTensorImpl()).is_of_module) continue;
      throw Error{Errc::backend, detail::preparing,
                  fmt::format("group {} lists a tensor {} that is no parameter of the model", group,
                              detail::shape_text(parameter.sizes(), parameter.scalar_type())),
                  "list parameters of the model that is given with them, and prepare an optimizer for each model"};
    }
  }
  return parameters;
}

RAYTRAIN_TORCH_INLINE void ShardedOptimizer::check_same_on_all_ranks(
    std::vector<detail::FlatParameters::Parameter> const& parameters, Collective& collective) const {
  if (collective.size() == WorldSize{1}) return;
  Groups without_parameters;
  for (auto const& group : param_groups()) {
    without_parameters.emplace_back(std::vector<at::Tensor>{}, group.options().clone());
  }
  auto const sample = make_(std::move(without_parameters));
  std::vector<std::string> own{"the optimizer " + detail::demangled(typeid(*sample).name())};
  if (auto const state = detail::optimizer_state(*sample)) {
    for (auto const& [name, value] : state->values) own.push_back(name + " " + value);
  }
  for (auto const& [name, tensor, groups, number, place, array, begin, view] : parameters) {
    own.push_back(fmt::format("parameter '{}' {} at place {} in groups {}", name,
                              detail::shape_text(tensor.sizes(), tensor.scalar_type()), number,
                              fmt::join(groups, ", ")));
  }
  for (auto const& each : frozen_) own.push_back("parameter '" + each.name + "' without a gradient");
  detail::check_same_on_ranks(collective, std::move(own), detail::preparing,
                              "make the same call on every rank: with the same optimizer, options and parameters");
}

RAYTRAIN_TORCH_INLINE auto ShardedOptimizer::step(LossClosure closure) -> at::Tensor {
  at::Tensor loss;
  if (closure) {
    torch::AutoGradMode const with_gradients{true};
    loss = closure();
  }
  detail::InPhase const steps{timer_.get(), detail::StepTimer::Phase::optimizer};
  torch::NoGradGuard const no_grad;
  check_unchanged();
  slice_->step(param_groups());
  return loss;
}

RAYTRAIN_TORCH_INLINE void ShardedOptimizer::check_unchanged() const {
  constexpr auto attempted = "a step of a sharded optimizer";
  constexpr auto remedy = "prepare another optimizer after such a change: prepare_model(), then prepare_optimizer()";
  if (is_local_ && is_local_()) {
    throw Error{Errc::invalid_call, attempted, "its model has become a local one, which each worker trains by itself",
                "make an optimizer for it on each worker: torch::optim::Adam optimizer{model->parameters(), 1e-3}"};
  }
  if (listed() != listed_) {
    throw Error{Errc::backend, attempted, "its groups list other parameters than when it was prepared", remedy};
  }
  for (auto const& [name, parameter] : frozen_) {
    if (!parameter.grad().defined() || parameter.numel() == 0) continue;
    throw Error{Errc::backend, attempted,
                "parameter '" + name + "' has a gradient, and wanted none when the optimizer was prepared", remedy};
  }
}

RAYTRAIN_TORCH_INLINE void ShardedOptimizer::save(torch::serialize::OutputArchive&) const {
  throw Error{Errc::invalid_call, "storing a sharded optimizer",
              "its state is spread over the workers, and is asked for on this one alone",
              "give it to raytrain::save(model, optimizer), which gathers it when it is reported"};
}

RAYTRAIN_TORCH_INLINE void ShardedOptimizer::load(torch::serialize::InputArchive& archive) {
  auto const whole = make_(param_groups());
  whole->load(archive);
  constexpr auto attempted = "loading a state";
  if (auto const state = detail::optimizer_state(*whole)) return set_state(*state, attempted);
  throw Error{Errc::backend, attempted, "the optimizer's options are not finite", detail::state_remedy};
}

RAYTRAIN_TORCH_INLINE auto ShardedOptimizer::gather_state() const -> std::optional<detail::OptimizerState> {
  torch::NoGradGuard const no_grad;
  slice_->take_options(param_groups());
  auto whole = detail::gather_pieces(*slice_, *collective_, on_device_);
  if (!whole) return std::nullopt;
  auto const options = detail::optimizer_state(slice())->values;
  for (auto const& [name, value] : options) {
    if (!detail::parameter_number(name)) whole->values.emplace(name, value);
  }
  for (std::size_t i = 0; i < param_groups().size(); ++i) {
    whole->values[fmt::format("group.{}.params", i)] = std::to_string(param_groups()[i].params().size());
  }
  return whole;
}

RAYTRAIN_TORCH_INLINE void ShardedOptimizer::check_groups(detail::OptimizerState const& state,
                                                          std::string_view attempted) const {
  auto const refuse = [&](std::string happened) {
    throw Error{Errc::backend, std::string{attempted}, std::move(happened), detail::state_remedy};
  };
  std::size_t groups = 0;
  while (state.values.contains(fmt::format("group.{}.params", groups))) ++groups;
  if (groups != param_groups().size()) {
    refuse(fmt::format("it has {} parameter groups, and this optimizer has {}", groups, param_groups().size()));
  }
  for (std::size_t i = 0; i < groups; ++i) {
    auto const& stored = state.values.at(fmt::format("group.{}.params", i));
    auto const own = param_groups()[i].params().size();
    if (stored == std::to_string(own)) continue;
    refuse(fmt::format("its group {} has {} parameters, and that of this optimizer has {}", i, stored, own));
  }
}

RAYTRAIN_TORCH_INLINE void ShardedOptimizer::set_state(detail::OptimizerState const& state,
                                                       std::string_view attempted) {
  torch::NoGradGuard const no_grad;
  check_groups(state, attempted);
  auto const& flat = slice_->parameters();
  std::map<std::size_t, detail::OptimizerSlice::State> whole;  // by number
  TensorMetadata options;
  for (auto const& [name, value] : state.values) {
    if (auto const number = detail::parameter_number(name)) {
      whole[*number].values[name.substr(name.find('.') + 1)] = value;
    } else if (!name.ends_with(".params")) {
      options[name] = value;
    }
  }
  for (auto const& [name, tensor] : state.tensors) {
    if (auto const number = detail::parameter_number(name)) {
      whole[*number].tensors[name.substr(name.find('.') + 1)] = tensor;
    }
  }
  for (auto const& parameter : flat.parameters()) {  // on all ranks alike
    auto const text = detail::shape_text(parameter.view.sizes(), parameter.view.scalar_type());
    for (auto const& [member, tensor] : whole[parameter.number].tensors) {
      auto const other = detail::shape_text(tensor.sizes(), tensor.scalar_type());
      if (other == text) continue;
      throw Error{Errc::backend, std::string{attempted},
                  fmt::format("{} of parameter '{}' is {} there and {} in this optimizer", shown_tensor_name(member),
                              parameter.name, other, text),
                  detail::state_remedy};
    }
  }
  std::vector<detail::OptimizerSlice::State> own;
  for (auto const& [index, begin, end] : flat.pieces()) {
    auto const& parameter = flat.parameters()[index];
    auto const& view = parameter.view;
    auto& piece = own.emplace_back(whole[parameter.number]);
    for (auto& [member, tensor] : piece.tensors) {
      if (tensor.strides() != view.strides()) {
        tensor = torch::empty_strided(view.sizes(), view.strides(), tensor.options()).copy_(tensor);
      }
      tensor = tensor.as_strided({end - begin}, {1}, tensor.storage_offset() + begin - parameter.begin);
    }
  }
  slice_->set_states(own, options, param_groups(), attempted);
  for (std::size_t i = 0; i < param_groups().size(); ++i) {
    // Those that `load` has set: the rates, and all of them since LibTorch 2. In place, since a program may refer to
    // them.
    torch::serialize::OutputArchive loaded{std::make_shared<torch::jit::CompilationUnit>()};
    slice().param_groups()[i].options().serialize(loaded);
    torch::serialize::InputArchive archive;
    detail::module_in(archive) = detail::module_in(loaded);
    param_groups()[i].options().serialize(archive);
  }
}

}  // namespace raytrain
