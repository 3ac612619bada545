// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/jit/api/object.h>
#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <typeinfo>
#include <utility>
#include <variant>
#include <vector>

#include <raytrain/backend/torch/detail/parameter_names.hpp>
#include <raytrain/backend/torch/detail/stored_optimizer.hpp>
#include <raytrain/backend/torch/detail/stored_tensors.hpp>
#include <raytrain/backend/torch/detail/torch_call.hpp>
#include <raytrain/backend/torch/sharded_optimizer.hpp>
#include <raytrain/backend/torch/torch_checkpoint.hpp>
#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/checkpoint/checkpoint_draft.hpp>
#include <raytrain/checkpoint/safetensors.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/current_error.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain::detail {

/// How often a scheduler was stepped, which is all its state: the rates are the optimizer's. LibTorch's schedulers have
/// neither `save` nor `load`.
struct SchedulerSteps : torch::optim::LRScheduler {
  [[nodiscard]] static auto of(torch::optim::LRScheduler& scheduler) -> unsigned& {
    return scheduler.*(&SchedulerSteps::step_count_);
  }
};

/// Name, shape and type of all that a checkpoint of the module holds.
struct TensorFormat {
  std::string name;
  std::vector<std::int64_t> sizes;
  at::ScalarType type{};
  friend auto operator==(TensorFormat const&, TensorFormat const&) -> bool = default;

  [[nodiscard]] auto shape() const -> std::string { return shape_text(sizes, type); }
};

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

/// The tensors of an archive and of those in it, whatever else is there.
RAYTRAIN_TORCH_INLINE void find_tensors(c10::ivalue::Object const& object, std::string const& prefix,
                                        std::map<std::string, at::Tensor>& found) {
  for (std::size_t i = 0; i < object.type()->numAttributes(); ++i) {
    auto const name = prefix + object.type()->getAttributeName(i);
    auto const& value = object.slots().at(i);
    if (value.isObject()) find_tensors(value.toObjectRef(), name + ".", found);
    if (value.isTensor()) found.emplace(name, value.toTensor());
  }
}

/// Errors: `backend` where the archive has different tensors for one that the module has by two names.
RAYTRAIN_TORCH_INLINE void check_shared(torch::serialize::InputArchive& archive, torch::nn::Module const& module,
                                        std::string_view attempted) {
  std::map<std::string, at::Tensor> stored;
  find_tensors(*module_in(archive)._ivalue(), {}, stored);
  auto const is_equal = [](at::Tensor const& a, at::Tensor const& b) {  // also where both are no numbers
    if (a.sizes() != b.sizes() || a.scalar_type() != b.scalar_type()) return false;
    auto const own = a.cpu().contiguous(), other = b.cpu().contiguous();  // an archive's may be on a GPU
    return own.numel() == 0 || std::memcmp(own.data_ptr(), other.data_ptr(), own.nbytes()) == 0;
  };
  std::map<c10::TensorImpl const*, std::string> first;
  for (auto const& item : module.named_parameters()) {
    if (!stored.contains(item.key())) continue;
    auto const [place, is_first] = first.emplace(item.value().unsafeGetTensorImpl(), item.key());
    if (is_first || is_equal(stored.at(item.key()), stored.at(place->second))) continue;
    throw Error{
        Errc::backend, std::string{attempted},
        fmt::format("'{}' and '{}' are one tensor in this model, and different ones there", place->second, item.key()),
        state_remedy};
  }
}

RAYTRAIN_TORCH_INLINE auto add_optimizer(CheckpointDraft& draft, torch::optim::Optimizer const& optimizer,
                                         std::string const& name, ParameterNames const& parameters) -> bool {
  return torch_call("storing a state", [&] {
    auto const* const sharded = dynamic_cast<ShardedOptimizer const*>(&optimizer);
    auto state = sharded == nullptr ? optimizer_state(optimizer) : sharded->gather_state();
    if (!state) return sharded != nullptr;  // rank 0 has it
    state->values[optimizer_class] = class_of(optimizer);
    add_parameter_names(state->values, parameters);
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
RAYTRAIN_TORCH_INLINE auto differing_shapes(TensorIndex const& index, torch::optim::Optimizer const& optimizer,
                                            ParameterNames const& names) -> std::vector<std::string> {
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
    auto const shape = shape_text(own.sizes(), own.scalar_type());
    if (names.empty()) {
      found.push_back(
          fmt::format("'{}' is {} there and its parameter is {} here", stored.name, shape_text(stored), shape));
    } else {
      found.push_back(fmt::format("{} of parameter '{}' is {} there and {} in this optimizer",
                                  shown_tensor_name(stored.name.substr(stored.name.find('.') + 1)), names.at(*number),
                                  shape_text(stored), shape));
    }
  }
  return found;
}

/// Of which places in the groups one tensor is, where the state has something for more than the first of them, as a
/// sentence; empty if there are none. Of a tensor that was one when it was saved, the first place alone has a state.
RAYTRAIN_TORCH_INLINE auto states_of_one(TensorIndex const& index, torch::optim::Optimizer const& optimizer,
                                         ParameterNames const& names) -> std::string {
  std::set<std::size_t> stored;
  for (auto const& tensor : index.tensors) {
    if (auto const number = parameter_number(tensor.name)) stored.insert(*number);
  }
  for (auto const& [name, value] : index.metadata) {
    if (auto const number = parameter_number(name)) stored.insert(*number);
  }
  std::map<c10::TensorImpl const*, std::size_t> first;
  std::size_t number = 0;
  for (auto const& group : optimizer.param_groups()) {
    for (auto const& parameter : group.params()) {
      auto const [place, is_first] = first.emplace(parameter.unsafeGetTensorImpl(), number);
      if (!is_first && stored.contains(number)) {
        return fmt::format(
            "parameters {} and {} are one tensor of this optimizer{}, and each has a state of its own there",
            place->second, number, names.empty() ? "" : ", '" + names.at(number) + "'");
      }
      ++number;
    }
  }
  return {};
}

RAYTRAIN_TORCH_INLINE void load_optimizer(BytesView file, torch::optim::Optimizer& optimizer,
                                          std::string_view attempted, ParameterNames const& parameters) {
  auto const own = class_of(optimizer);
  auto index = read_tensor_index(file, attempted);
  auto const named = index.metadata.find(optimizer_class);
  auto const stored = named == index.metadata.end() ? std::string{} : named->second;
  auto const refuse = [&](std::string happened) {
    if (stored != own && !stored.empty()) {
      happened = "it is of a " + shown_tensor_name(stored) + ", and this optimizer is a " + own;
    }
    throw Error{Errc::backend, std::string{attempted}, std::move(happened), state_remedy};
  };
  try {
    torch_call(attempted, [&] {
      if (stored != own && keeps_shapes(stored) && keeps_shapes(own)) refuse({});  // of another rule, and its options
      if (count_by_names(index, optimizer, parameters, attempted) && !keeps_shapes(own)) {
        refuse("the parameters have another order in this optimizer, and its state may be one of all of them");
      }
      if (auto text = states_of_one(index, optimizer, parameters); !text.empty()) refuse(std::move(text));
      if (auto* const sharded = dynamic_cast<ShardedOptimizer*>(&optimizer)) {
        if (stored != own && !stored.empty()) refuse({});
        auto state = stored_state(file, std::move(index), attempted);
        state.values.erase(optimizer_class);
        return sharded->set_state(state, attempted);
      }
      if (keeps_shapes(own)) {
        auto const found = differing_shapes(index, optimizer, parameters);
        if (!found.empty()) refuse(fmt::format("{}", fmt::join(found, ", ")));
      }
      auto archive = optimizer_archive(file, std::move(index), device_of(optimizer), attempted);
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

/// The one of that kind; null for another one.
template <class T>
[[nodiscard]] auto owner_as(StateOwner const& owner) -> T* {
  auto* const* const found = std::get_if<T*>(&owner);
  return found == nullptr ? nullptr : *found;
}

RAYTRAIN_TORCH_INLINE auto owner_to_bytes(StateOwner const& owner) -> Bytes {
  torch::serialize::OutputArchive archive{std::make_shared<torch::jit::CompilationUnit>()};
  if (auto* const scheduler = owner_as<torch::optim::LRScheduler>(owner)) {
    archive.write("step_count", c10::IValue{static_cast<std::int64_t>(SchedulerSteps::of(*scheduler))});
  } else if (auto const* const optimizer = owner_as<torch::optim::Optimizer>(owner)) {
    optimizer->save(archive);
  } else {
    std::get<torch::nn::Module*>(owner)->save(archive);
  }
  // Counted first: growing would hold them twice, and takes longer.
  std::size_t size_bytes = 0;
  archive.save_to([&](void const*, std::size_t size) {
    size_bytes += size;
    return size;
  });
  Bytes bytes;
  bytes.reserve(size_bytes);
  archive.save_to([&](void const* data, std::size_t size) {
    auto const* const first = static_cast<std::byte const*>(data);
    bytes.insert(bytes.end(), first, first + size);
    return size;
  });
  return bytes;
}

RAYTRAIN_TORCH_INLINE void owner_from_bytes(BytesView bytes, StateOwner const& owner, std::string_view attempted) {
  auto const* const begin = reinterpret_cast<char const*>(bytes.data());
  auto* const module = owner_as<torch::nn::Module>(owner);
  auto const load = [&] {
    torch::serialize::InputArchive archive;
    if (auto* const optimizer = owner_as<torch::optim::Optimizer>(owner)) {
      archive.load_from(begin, bytes.size(), device_of(*optimizer));
      optimizer->load(archive);
      load_learning_rates(archive, *optimizer);
      return;
    }
    archive.load_from(begin, bytes.size());
    if (auto* const scheduler = owner_as<torch::optim::LRScheduler>(owner)) {
      c10::IValue steps;
      archive.read("step_count", steps);
      SchedulerSteps::of(*scheduler) = static_cast<unsigned>(steps.toInt());
    } else {
      check_shared(archive, *module, attempted);
      module->load(archive);
    }
  };
  if (module == nullptr) return torch_call(attempted, load, state_remedy);
  auto const expected = formats_of(*module);
  torch_call(attempted, load, state_remedy);
  auto const found = formats_of(*module);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (expected[i] == found[i]) continue;
    throw Error{
        Errc::backend, std::string{attempted},
        fmt::format("'{}' is {} there and {} in this model", expected[i].name, found[i].shape(), expected[i].shape()),
        state_remedy};
  }
}

RAYTRAIN_TORCH_INLINE void add_state(CheckpointDraft& draft, std::function<StateOwner()> const& find,
                                     std::string const& name, ParameterNames const& parameters) {
  constexpr auto attempted = "storing a state";
  auto const owner = torch_call(attempted, find);
  auto const* const module = owner_as<torch::nn::Module>(owner);
  auto const* const optimizer = owner_as<torch::optim::Optimizer>(owner);
  auto const is_added = module != nullptr ? add_model(draft, *module, name)
                                          : optimizer != nullptr && add_optimizer(draft, *optimizer, name, parameters);
  if (!is_added) draft.add(archive_name(name), torch_call(attempted, [&] { return owner_to_bytes(owner); }));
}

RAYTRAIN_TORCH_INLINE void load_state(Checkpoint const& checkpoint, std::function<StateOwner()> const& find,
                                      std::string const& name, ParameterNames const& parameters) {
  auto const attempted = [&](std::string const& file) { return "loading " + checkpoint.location() + "/" + file; };
  auto const archive = archive_name(name);
  auto const tensors = tensors_name(name);
  auto const owner = torch_call(attempted(tensors), find);
  auto const is_scheduler = owner_as<torch::optim::LRScheduler>(owner) != nullptr;
  if (is_scheduler || (checkpoint.contains(archive) && !checkpoint.contains(tensors))) {
    auto const file = checkpoint.view(archive);
    return owner_from_bytes(file.view(), owner, attempted(archive));
  }
  auto const file = checkpoint.view(tensors);
  if (auto* const module = owner_as<torch::nn::Module>(owner)) {
    load_model(file.view(), *module, attempted(tensors));
  } else {
    load_optimizer(file.view(), *std::get<torch::optim::Optimizer*>(owner), attempted(tensors), parameters);
  }
}

}  // namespace raytrain::detail
