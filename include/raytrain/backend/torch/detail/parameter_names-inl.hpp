// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <raytrain/backend/torch/detail/parameter_names.hpp>
#include <raytrain/backend/torch/detail/stored_optimizer.hpp>
#include <raytrain/backend/torch/detail/stored_tensors.hpp>
#include <raytrain/checkpoint/safetensors.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/message/json.hpp>

namespace raytrain::detail {

/// Where a file's metadata have the names of the parameters.
constexpr auto parameters_key = "parameters";

RAYTRAIN_TORCH_INLINE auto parameter_names(torch::optim::Optimizer const& optimizer,
                                           std::map<std::string, torch::nn::Module const*> const& models)
    -> ParameterNames {
  using Known = std::unordered_map<c10::TensorImpl const*, std::string>;
  auto const names_by = [&](Known const& known) -> ParameterNames {
    ParameterNames names;
    for (auto const& group : optimizer.param_groups()) {
      for (auto const& parameter : group.params()) {
        auto const name = known.find(parameter.unsafeGetTensorImpl());
        if (name == known.end()) return {};
        names.push_back(name->second);
      }
    }
    return names;
  };
  Known of_all;
  for (auto const& [model, module] : models) {
    Known own;
    for (auto const& item : module->named_parameters()) {
      own.try_emplace(item.value().unsafeGetTensorImpl(), model + "." + item.key());
    }
    // Another model of the state may have some of them as well, and need not be there when they are loaded.
    if (auto names = names_by(own); !names.empty()) return names;
    of_all.merge(own);
  }
  return names_by(of_all);
}

RAYTRAIN_TORCH_INLINE void add_parameter_names(TensorMetadata& metadata, ParameterNames const& names) {
  if (names.empty()) return;
  std::vector<std::string> texts;
  for (auto const& name : names) texts.push_back(json_string(name));
  metadata[parameters_key] = fmt::format("[{}]", fmt::join(texts, ", "));
}

/// Takes them out of the metadata; empty if there are none.
RAYTRAIN_TORCH_INLINE auto take_parameter_names(TensorMetadata& metadata, std::string_view attempted)
    -> ParameterNames {
  auto const text = metadata.extract(parameters_key);
  if (!text) return {};
  ParameterNames names;
  auto const json = parse_json(text.mapped(), "the names of parameters");
  if (auto const* const array = json.get_if<JsonArray>()) {
    for (auto const& element : *array) {
      if (auto const* const name = element.get_if<std::string>()) names.push_back(*name);
    }
    if (names.size() == array->size()) return names;
  }
  throw Error{Errc::corrupt_checkpoint, std::string{attempted},
              "it holds no state of an optimizer: its parameters' names are no list of names", state_remedy};
}

/// Where each name is: the place through all groups, and the group, of each time that it is listed.
struct NamedPlace {
  std::size_t number;
  std::size_t group;
};
using NamedPlaces = std::map<std::string, std::vector<NamedPlace>>;

RAYTRAIN_TORCH_INLINE auto places_of(ParameterNames const& names, std::vector<std::size_t> const& group_sizes)
    -> NamedPlaces {
  NamedPlaces places;
  std::size_t number = 0;
  for (std::size_t group = 0; group < group_sizes.size(); ++group) {
    for (std::size_t i = 0; i < group_sizes[group] && number < names.size(); ++i, ++number) {
      places[names[number]].push_back({number, group});
    }
  }
  return places;
}

/// Which names one of both alone has, or has in another group; empty if there are none.
RAYTRAIN_TORCH_INLINE auto differing_names(NamedPlaces const& stored, NamedPlaces const& own)
    -> std::vector<std::string> {
  std::vector<std::string> found;
  for (auto const& [name, places] : own) {
    auto const there = stored.find(name);
    if (there == stored.end()) {
      found.push_back(fmt::format("'{}' is not there", name));
      continue;
    }
    if (places.size() != there->second.size()) {
      found.push_back(fmt::format("'{}' is there {} times, and {} times in this optimizer", name, there->second.size(),
                                  places.size()));
      continue;
    }
    for (std::size_t i = 0; i < places.size(); ++i) {
      if (places[i].group == there->second[i].group) continue;
      found.push_back(fmt::format("'{}' is in group {} there and in group {} of this optimizer", name,
                                  there->second[i].group, places[i].group));
    }
  }
  for (auto const& [name, places] : stored) {
    if (own.contains(name)) continue;
    found.push_back(fmt::format("'{}' is not in this optimizer", shown_tensor_name(name)));
  }
  constexpr std::size_t most = 8;
  if (found.size() > most) {
    auto const others = found.size() - most;
    found.resize(most);
    found.push_back(fmt::format("and {} more differ", others));
  }
  return found;
}

RAYTRAIN_TORCH_INLINE auto count_by_names(TensorIndex& index, torch::optim::Optimizer const& optimizer,
                                          ParameterNames const& names, std::string_view attempted) -> bool {
  auto const there = take_parameter_names(index.metadata, attempted);
  if (there.empty() || names.empty()) return false;
  std::vector<std::size_t> stored_sizes;
  for (auto size = index.metadata.end();
       (size = index.metadata.find(fmt::format("group.{}.params", stored_sizes.size()))) != index.metadata.end();) {
    stored_sizes.push_back(std::strtoull(size->second.c_str(), nullptr, 10));
  }
  std::vector<std::size_t> own_sizes;
  for (auto const& group : optimizer.param_groups()) own_sizes.push_back(group.params().size());
  if (stored_sizes.size() != own_sizes.size()) return false;  // which LibTorch refuses
  auto const stored = places_of(there, stored_sizes);
  auto const own = places_of(names, own_sizes);
  if (auto const found = differing_names(stored, own); !found.empty()) {
    throw Error{Errc::backend, std::string{attempted},
                fmt::format("its parameters are others: {}", fmt::join(found, ", ")), state_remedy};
  }
  if (stored_sizes != own_sizes) return false;  // and so it does here
  if (there == names) return false;
  std::map<std::size_t, std::size_t> numbers;
  for (auto const& [name, places] : stored) {
    for (std::size_t i = 0; i < places.size(); ++i) numbers[places[i].number] = own.at(name).at(i).number;
  }
  auto const renumbered = [&](std::string const& name) {
    auto const number = parameter_number(name);
    if (!number || !numbers.contains(*number)) return name;
    return std::to_string(numbers.at(*number)) + name.substr(name.find('.'));
  };
  for (auto& tensor : index.tensors) tensor.name = renumbered(tensor.name);
  TensorMetadata metadata;
  for (auto& [name, value] : index.metadata) metadata.emplace(renumbered(name), std::move(value));
  index.metadata = std::move(metadata);
  return true;
}

}  // namespace raytrain::detail
