// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/jit/api/object.h>
#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <typeinfo>
#include <utility>
#include <vector>

#include <raytrain/backend/torch/detail/archive_module.hpp>
#include <raytrain/backend/torch/detail/stored_optimizer.hpp>
#include <raytrain/backend/torch/detail/stored_tensors.hpp>
#include <raytrain/backend/torch/detail/torch_call.hpp>
#include <raytrain/backend/torch/sharded_optimizer.hpp>
#include <raytrain/backend/torch/torch_checkpoint.hpp>
#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/checkpoint/checkpoint_draft.hpp>
#include <raytrain/checkpoint/safetensors.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/demangled.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain::detail {

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

/// Where a file's metadata name the optimizer's class.
constexpr auto optimizer_class = "class";

/// Of a sharded one: of the optimizer that its workers run.
RAYTRAIN_TORCH_INLINE auto class_of(torch::optim::Optimizer const& optimizer) -> std::string {
  auto const* const sharded = dynamic_cast<ShardedOptimizer const*>(&optimizer);
  auto const& whole = sharded == nullptr ? optimizer : sharded->slice();
  return demangled(typeid(whole).name());
}

RAYTRAIN_TORCH_INLINE auto is_stored_here(torch::optim::Optimizer const& optimizer) -> std::optional<bool> {
  auto const* const sharded = dynamic_cast<ShardedOptimizer const*>(&optimizer);
  if (sharded == nullptr) return std::nullopt;
  return sharded->is_on_rank_0();
}

RAYTRAIN_TORCH_INLINE auto add_model(CheckpointDraft& draft, torch::nn::Module const& module, std::string const& name)
    -> bool {
  return torch_call("storing a state", [&] {
    torch::serialize::OutputArchive archive{std::make_shared<torch::jit::CompilationUnit>()};
    module.save(archive);
    auto const tensors = state_tensors(module, archive);
    if (tensors) add_tensors(draft, tensors_name(name), *tensors, {{"format", "pt"}});
    return tensors.has_value();
  });
}

RAYTRAIN_TORCH_INLINE void fill_model(torch::nn::Module& module, std::string_view attempted,
                                      std::function<void(std::vector<NamedTensor> const&)> const& fill) {
  torch_call(
      attempted,
      [&] {
        torch::serialize::OutputArchive archive{std::make_shared<torch::jit::CompilationUnit>()};
        module.save(archive);
        auto const tensors = state_tensors(module, archive);
        if (!tensors) {
          throw Error{Errc::backend, std::string{attempted},
                      "this model stores more than parameters and buffers, and no such file holds that", state_remedy};
        }
        fill(*tensors);
        // A module of the program's may do more in its `load` than to take tensors, which are there already.
        torch::serialize::InputArchive filled;
        module_in(filled) = module_in(archive);
        module.load(filled);
      },
      state_remedy);
}

RAYTRAIN_TORCH_INLINE void load_model(BytesView file, torch::nn::Module& module, std::string_view attempted) {
  fill_model(module, attempted,
             [&](std::vector<NamedTensor> const& tensors) { fill_tensors(file, tensors, attempted); });
}

RAYTRAIN_TORCH_INLINE auto add_optimizer(CheckpointDraft& draft, torch::optim::Optimizer const& optimizer,
                                         std::string const& name) -> bool {
  return torch_call("storing a state", [&] {
    auto const* const sharded = dynamic_cast<ShardedOptimizer const*>(&optimizer);
    auto state = sharded == nullptr ? optimizer_state(optimizer) : sharded->gather_state();
    if (!state) return sharded != nullptr;  // rank 0 has it
    state->values[optimizer_class] = class_of(optimizer);
    add_tensors(draft, tensors_name(name), state->tensors, std::move(state->values));
    return true;
  });
}

/// Whether the tensors that it keeps have the shapes of its parameters, by its class: of those that LibTorch and
/// raytrain bring.
RAYTRAIN_TORCH_INLINE auto keeps_shapes(std::string_view name) -> bool {
  constexpr std::array names{"torch::optim::SGD",     "torch::optim::Adam",    "torch::optim::AdamW",
                             "torch::optim::RMSprop", "torch::optim::Adagrad", "raytrain::Adadelta",
                             "raytrain::LAMB",        "raytrain::LARS"};
  return std::ranges::find(names, name) != names.end();
}

/// Which tensors of an element-wise optimizer's state have other shapes than the parameters that they belong to.
/// LibTorch looks at the number of parameters alone.
RAYTRAIN_TORCH_INLINE auto differing_shapes(TensorIndex const& index, torch::optim::Optimizer const& optimizer)
    -> std::vector<std::string> {
  std::vector<at::Tensor> parameters;
  for (auto const& group : optimizer.param_groups()) {
    for (auto const& parameter : group.params()) parameters.push_back(parameter);
  }
  std::vector<std::string> found;
  for (auto const& stored : index.tensors) {
    auto const number = parameter_number(stored.name);
    if (!number || *number >= parameters.size()) continue;
    auto const& own = parameters[*number];
    if (std::ranges::equal(stored.shape, own.sizes(), {}, {},
                           [](auto size) { return static_cast<std::uint64_t>(size); }))
      continue;
    found.push_back(fmt::format("'{}' is {} there and its parameter is {} here", stored.name, shape_text(stored),
                                shape_text(own.sizes(), own.scalar_type())));
  }
  return found;
}

RAYTRAIN_TORCH_INLINE void load_optimizer(BytesView file, torch::optim::Optimizer& optimizer,
                                          std::string_view attempted) {
  auto const own = class_of(optimizer);
  auto const stored = read_tensor_index(file, attempted).metadata[optimizer_class];
  auto const refuse = [&](std::string happened) {
    if (stored != own && !stored.empty()) {
      happened = "it is of a " + shown_tensor_name(stored) + ", and this optimizer is a " + own;
    }
    throw Error{Errc::backend, std::string{attempted}, std::move(happened), state_remedy};
  };
  try {
    torch_call(attempted, [&] {
      if (auto* const sharded = dynamic_cast<ShardedOptimizer*>(&optimizer)) {
        if (stored != own && !stored.empty()) refuse({});
        auto state = stored_state(file, attempted);
        state.values.erase(optimizer_class);
        return sharded->set_state(state, attempted);
      }
      if (keeps_shapes(own)) {
        auto const found = differing_shapes(read_tensor_index(file, attempted), optimizer);
        if (!found.empty()) refuse(fmt::format("{}", fmt::join(found, ", ")));
      }
      auto archive = optimizer_archive(file, device_of(optimizer), attempted);
      optimizer.load(archive);
      load_learning_rates(archive, optimizer);
    });
  } catch (Error const& error) {
    if (error.code() != Errc::backend) throw;
    refuse(error.happened());
  } catch (torch::jit::ObjectAttributeError const& error) {
    refuse(error.what());
  }
}

}  // namespace raytrain::detail
