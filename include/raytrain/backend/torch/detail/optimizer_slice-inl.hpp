// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <ranges>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <raytrain/backend/torch/detail/flat_parameters.hpp>
#include <raytrain/backend/torch/detail/generators.hpp>
#include <raytrain/backend/torch/detail/optimizer_slice.hpp>
#include <raytrain/backend/torch/detail/stored_optimizer.hpp>
#include <raytrain/backend/torch/detail/stored_tensors.hpp>
#include <raytrain/backend/torch/detail/tensor_over.hpp>
#include <raytrain/checkpoint/checkpoint_draft.hpp>
#include <raytrain/checkpoint/safetensors.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain::detail {

RAYTRAIN_TORCH_INLINE OptimizerSlice::OptimizerSlice(std::unique_ptr<FlatParameters> parameters, Make make,
                                                     Groups const& groups)
    : parameters_{std::move(parameters)}, make_{std::move(make)} {
  auto const pieces = parameters_->pieces().size();
  build(groups, std::vector<State>(pieces), std::vector<bool>(pieces, true));
}

RAYTRAIN_TORCH_INLINE auto OptimizerSlice::parameter_of(std::size_t piece) const -> FlatParameters::Parameter const& {
  return parameters_->parameters()[parameters_->pieces()[piece].parameter];
}

RAYTRAIN_TORCH_INLINE auto OptimizerSlice::has_gradient(std::size_t piece) const -> bool {
  return parameter_of(piece).tensor.grad().defined();
}

RAYTRAIN_TORCH_INLINE auto OptimizerSlice::goes_on(std::size_t piece) const -> bool {
  auto const& before = parameter_of(piece - 1);
  auto const& after = parameter_of(piece);
  if (before.array != after.array || before.groups != after.groups) return false;
  if (before.gradient_place == nullptr || after.gradient_place == nullptr) return false;
  auto const distance = static_cast<std::byte const*>(after.gradient_place.get()) -
                        static_cast<std::byte const*>(before.gradient_place.get());
  auto const element_bytes = static_cast<std::ptrdiff_t>(after.tensor.element_size());
  return distance == (after.begin - before.begin) * element_bytes;
}

RAYTRAIN_TORCH_INLINE void OptimizerSlice::build(Groups const& groups, std::vector<State> const& states,
                                                 std::vector<bool> const& used) {
  auto const names = [](State const& state) { return state.tensors | std::views::keys; };
  segments_.clear();
  for (std::size_t i = 0; i < states.size(); ++i) {
    auto const is_same_state = [&] {
      return used[i] == used[i - 1] && states[i].values == states[i - 1].values &&
             std::ranges::equal(names(states[i]), names(states[i - 1]));
    };
    if (i > 0 && goes_on(i) && is_same_state()) {
      segments_.back().last = i;
    } else {
      segments_.push_back({i, i});
    }
  }
  std::vector<std::vector<at::Tensor>> lists(groups.size());
  for (auto& segment : segments_) {
    lay_out(segment);
    auto const& listed = parameter_of(segment.first).groups;
    segment.number = lists[listed.front()].size();
    for (auto const group : listed) lists[group].push_back(segment.elements);
  }
  for (auto& segment : segments_) {
    auto const group = parameter_of(segment.first).groups.front();
    for (std::size_t i = 0; i < group; ++i) segment.number += lists[i].size();
  }
  Groups own;
  for (std::size_t i = 0; i < groups.size(); ++i) own.emplace_back(std::move(lists[i]), groups[i].options().clone());
  optimizer_ = make_(std::move(own));
}

RAYTRAIN_TORCH_INLINE void OptimizerSlice::lay_out(Segment& segment) const {
  auto const& [index, begin, first_end] = parameters_->pieces()[segment.first];
  auto const end = parameters_->pieces()[segment.last].end;
  auto const& first = parameters_->parameters()[index];
  segment.elements = parameters_->elements(first.array, begin, end);
  if (first.gradient_place == nullptr) return;
  auto* const at = static_cast<std::byte*>(first.gradient_place.get()) +
                   (begin - first.begin) * static_cast<std::ptrdiff_t>(first.tensor.element_size());
  segment.gradients = tensor_over({first.gradient_place, at}, {end - begin}, {1}, first.tensor.scalar_type(),
                                  segment.elements.device());
}

RAYTRAIN_TORCH_INLINE void OptimizerSlice::take_options(Groups const& groups) {
  auto& own = optimizer_->param_groups();
  for (std::size_t i = 0; i < groups.size(); ++i) own[i].set_options(groups[i].options().clone());
}

RAYTRAIN_TORCH_INLINE void OptimizerSlice::step(Groups const& groups) {
  parameters_->take_back();
  cut_where_unused(groups);
  take_options(groups);
  for (auto& segment : segments_) {
    if (has_gradient(segment.first)) segment.elements.mutable_grad() = gradients_of(segment);
  }
  optimizer_->step();
  for (auto& segment : segments_) segment.elements.mutable_grad().reset();
  parameters_->gather(step_hash());
}

// Rates as float, since schedules may be rounded otherwise by processors of another kind.
RAYTRAIN_TORCH_INLINE auto OptimizerSlice::step_hash() const -> std::uint32_t {
  std::uint64_t hash = 0;
  for (auto const rate : learning_rates(*optimizer_)) {
    hash = stream_seed(hash, std::bit_cast<std::uint32_t>(static_cast<float>(rate)));
  }
  for (auto const& parameter : parameters_->parameters())
    hash = stream_seed(hash, parameter.tensor.grad().defined() ? 1 : 2);
  return static_cast<std::uint32_t>(hash);
}

RAYTRAIN_TORCH_INLINE void OptimizerSlice::cut_where_unused(Groups const& groups) {
  std::vector<bool> used;
  for (std::size_t i = 0; i < parameters_->pieces().size(); ++i) used.push_back(has_gradient(i));
  auto const is_mixed = [&](Segment const& segment) {
    auto const count = std::count(used.begin() + static_cast<std::ptrdiff_t>(segment.first),
                                  used.begin() + static_cast<std::ptrdiff_t>(segment.last) + 1, true);
    return count > 0 && static_cast<std::size_t>(count) <= segment.last - segment.first;
  };
  if (std::ranges::none_of(segments_, is_mixed)) return;
  auto const now = states();
  build(groups, now, used);
  load(now, {}, "a step of a sharded optimizer");
}

RAYTRAIN_TORCH_INLINE auto OptimizerSlice::gradients_of(Segment const& segment) -> at::Tensor {
  auto is_in_place = segment.gradients.defined();
  for (auto i = segment.first; is_in_place && i <= segment.last; ++i) {
    auto const& parameter = parameter_of(i);
    auto const& gradient = parameter.tensor.grad();
    is_in_place = !gradient.is_sparse() && gradient.data_ptr() == parameter.gradient_place.get() &&
                  gradient.sizes() == parameter.view.sizes() && gradient.strides() == parameter.view.strides();
  }
  if (is_in_place) return segment.gradients;
  if (segment.first == segment.last) {
    if (auto gradient = single_gradient(segment); gradient.defined()) return gradient;
  }
  auto const& pieces = parameters_->pieces();
  return parameters_->copied_gradients(pieces[segment.first], pieces[segment.last]);
}

RAYTRAIN_TORCH_INLINE auto OptimizerSlice::single_gradient(Segment const& segment) const -> at::Tensor {
  auto const& [index, begin, end] = parameters_->pieces()[segment.first];
  auto const& parameter = parameters_->parameters()[index];
  auto const& gradient = parameter.tensor.grad();
  auto const& view = parameter.view;
  if (gradient.is_sparse() || gradient.scalar_type() != view.scalar_type() || gradient.sizes() != view.sizes() ||
      gradient.strides() != view.strides()) {
    return {};
  }
  return gradient.as_strided({end - begin}, {1}, gradient.storage_offset() + begin - parameter.begin);
}

RAYTRAIN_TORCH_INLINE auto OptimizerSlice::states() const -> std::vector<State> {
  auto const refuse = [&](std::string happened) {
    throw Error{Errc::backend, "taking the state of a sharded optimizer", std::move(happened),
                "specialize ElementwiseOptimizer for optimizers only that are as it says, and keep options finite"};
  };
  auto const stored = optimizer_state(*optimizer_);
  if (!stored) refuse("it stores something else than tensors and numbers that JSON has");
  std::map<std::string, Segment const*> by_number;
  for (auto const& segment : segments_) by_number.emplace(std::to_string(segment.number), &segment);
  std::vector<State> states(parameters_->pieces().size());
  auto const for_each_piece = [&](std::string const& name, auto const& action) {
    auto const dot = name.find('.');
    auto const found = by_number.find(name.substr(0, dot));
    if (dot == std::string::npos || found == by_number.end()) return;  // of a group, or of all
    auto const& segment = *found->second;
    for (auto i = segment.first; i <= segment.last; ++i) action(segment, i, name.substr(dot + 1));
  };
  for (auto const& named : stored->tensors) {
    for_each_piece(named.name, [&](Segment const& segment, std::size_t i, std::string const& member) {
      auto const& pieces = parameters_->pieces();
      if (named.tensor.numel() != segment.elements.numel()) refuse("its " + member + " is not element-wise");
      auto const begin = pieces[i].begin - pieces[segment.first].begin;
      states[i].tensors[member] = named.tensor.reshape({-1}).narrow(0, begin, pieces[i].end - pieces[i].begin);
    });
  }
  for (auto const& [name, value] : stored->values) {
    for_each_piece(name, [&, &text = value](Segment const&, std::size_t i, std::string const& member) {
      states[i].values[member] = text;
    });
  }
  return states;
}

RAYTRAIN_TORCH_INLINE void OptimizerSlice::set_states(std::vector<State> const& states, TensorMetadata const& options,
                                                      Groups const& groups, std::string_view attempted) {
  build(groups, states, std::vector<bool>(states.size(), true));
  load(states, options, attempted);
}

RAYTRAIN_TORCH_INLINE void OptimizerSlice::load(std::vector<State> const& states, TensorMetadata options,
                                                std::string_view attempted) {
  auto const& pieces = parameters_->pieces();
  std::vector<NamedTensor> tensors;
  for (auto const& segment : segments_) {
    auto const prefix = std::to_string(segment.number) + ".";
    for (auto const& [member, value] : states[segment.first].values) options[prefix + member] = value;
    for (auto const& [member, tensor] : states[segment.first].tensors) {
      auto whole = tensor;
      if (segment.first < segment.last) whole = torch::zeros(segment.elements.sizes(), tensor.options());
      for (auto i = segment.first; segment.first < segment.last && i <= segment.last; ++i) {
        whole.slice(0, pieces[i].begin - pieces[segment.first].begin, pieces[i].end - pieces[segment.first].begin)
            .copy_(states[i].tensors.at(member));
      }
      tensors.push_back({prefix + member, std::move(whole)});
    }
  }
  auto const empty = optimizer_state(*optimizer_);
  if (empty) {  // what the states' owner has, and a file must have
    for (auto const& [name, value] : empty->values) {
      if (name.ends_with(".params") || !std::isdigit(static_cast<unsigned char>(name.front()))) {
        options.emplace(name, value);
      }
    }
  }
  CheckpointDraft draft;
  add_tensors(draft, "slice", tensors, std::move(options));
  auto const device = segments_.empty() ? at::Device{at::kCPU} : segments_.front().elements.device();
  auto const file = draft.files().at("slice").view();
  auto archive = optimizer_archive(file, read_tensor_index(file, attempted), device, attempted);
  optimizer_->load(archive);
  load_learning_rates(archive, *optimizer_);
}

}  // namespace raytrain::detail
