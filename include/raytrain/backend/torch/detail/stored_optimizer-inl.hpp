// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <torch/torch.h>

#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <raytrain/backend/torch/detail/stored_optimizer.hpp>
#include <raytrain/backend/torch/detail/stored_tensors.hpp>
#include <raytrain/checkpoint/safetensors.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/message/json.hpp>

namespace raytrain::detail {

/// Takes an archive apart that an optimizer has written by LibTorch's torch::optim::serialize.
class OptimizerWriter {
 public:
  /// False if it holds anything else.
  [[nodiscard]] auto take(c10::ivalue::Object const& root) -> bool {
    auto const* const groups = child(root, "param_groups");
    auto const* const states = child(root, "state");
    auto const version = root.type()->findAttributeSlot("pytorch_version");
    if (groups == nullptr || states == nullptr || !version || root.type()->numAttributes() != 3) return false;
    if (!add_value("pytorch_version", root.slots()[*version])) return false;
    return take_groups(*groups) && take_states(*states);
  }

  OptimizerState state;

 private:
  [[nodiscard]] static auto child(c10::ivalue::Object const& parent, std::string const& name)
      -> c10::ivalue::Object const* {
    auto const slot = parent.type()->findAttributeSlot(name);
    return slot && parent.slots()[*slot].isObject() ? &parent.slots()[*slot].toObjectRef() : nullptr;
  }

  [[nodiscard]] auto take_groups(c10::ivalue::Object const& groups) -> bool {
    auto const count = groups.type()->numAttributes() - 1;  // beside their number
    std::size_t places = 0;
    for (std::size_t i = 0; i < count; ++i) {
      auto const* const group = child(groups, fmt::format("param_groups/{}", i));
      auto const* const options = group == nullptr ? nullptr : child(*group, "options");
      if (options == nullptr) return false;
      std::size_t params = 0;
      while (auto const slot = group->type()->findAttributeSlot(fmt::format("params/{}", params))) {
        if (!group->slots()[*slot].isString()) return false;
        numbers_.emplace(group->slots()[*slot].toStringRef(), places++);  // the first, where one is listed again
        ++params;
      }
      if (group->type()->numAttributes() != params + 2) return false;  // their number and the options
      auto const prefix = fmt::format("group.{}.", i);
      state.values[prefix + "params"] = std::to_string(params);
      for (std::size_t slot = 0; slot < options->type()->numAttributes(); ++slot) {
        auto const name = options->type()->getAttributeName(slot);
        if (options->slots()[slot].isTensor() || name == "params") return false;
        if (!add_value(prefix + name, options->slots()[slot])) return false;
      }
    }
    return true;
  }

  [[nodiscard]] auto take_states(c10::ivalue::Object const& states) -> bool {
    // The optimizer has them in the order of their keys' hashes, which is another one in each process.
    std::map<std::size_t, c10::IValue const*> by_number;
    for (std::size_t i = 0; i < states.type()->numAttributes(); ++i) {
      auto const number = numbers_.find(states.type()->getAttributeName(i));
      if (number == numbers_.end()) return false;
      by_number.emplace(number->second, &states.slots()[i]);
    }
    for (auto const& [number, stored] : by_number) {
      if (!stored->isObject()) return false;
      auto const& values = stored->toObjectRef();
      for (std::size_t slot = 0; slot < values.type()->numAttributes(); ++slot) {
        auto const member = values.type()->getAttributeName(slot);
        if (member.find('.') != std::string::npos) return false;  // as elements of lists are named
        if (!add_value(fmt::format("{}.{}", number, member), values.slots()[slot])) return false;
      }
    }
    return true;
  }

  [[nodiscard]] auto add_value(std::string const& name, c10::IValue const& value) -> bool {
    if (!can_name_tensor(name)) return false;
    if (value.isTensor()) return add_tensor(name, value.toTensor());
    if (value.isTensorList()) {
      auto const list = value.toTensorVector();
      for (std::size_t i = 0; i < list.size(); ++i) {
        if (list[i].defined() && !add_tensor(fmt::format("{}.{}", name, i), list[i])) return false;
      }
      state.values[name] = fmt::format(R"({{"tensors": {}}})", list.size());
      return true;
    }
    auto text = json_of(value);
    if (!text) return false;
    state.values[name] = std::move(*text);
    return true;
  }

  [[nodiscard]] auto add_tensor(std::string name, at::Tensor const& tensor) -> bool {
    if (!is_storable(tensor)) return false;
    state.tensors.push_back({std::move(name), tensor});
    return true;
  }

  [[nodiscard]] static auto json_of(c10::IValue const& value) -> std::optional<std::string> {
    if (value.isNone()) return "null";
    if (value.isBool()) return value.toBool() ? "true" : "false";
    if (value.isInt()) return std::to_string(value.toInt());
    if (value.isString()) return json_string(value.toStringRef());
    if (value.isDouble()) {
      if (!std::isfinite(value.toDouble())) return std::nullopt;
      auto text = write_json(value.toDouble());
      text.pop_back();  // the end of the line
      return text;
    }
    if (!value.isTuple()) return std::nullopt;
    std::string text = "[";
    for (auto const& element : value.toTupleRef().elements()) {
      auto const part = json_of(element);
      if (!part) return std::nullopt;
      text += (text.size() > 1 ? ", " : "") + *part;
    }
    return text + "]";
  }

  std::map<std::string, std::size_t> numbers_;  // places of parameters, by the keys that they have in the archive
};

RAYTRAIN_TORCH_INLINE auto optimizer_state(torch::optim::Optimizer const& optimizer) -> std::optional<OptimizerState> {
  torch::serialize::OutputArchive archive{std::make_shared<torch::jit::CompilationUnit>()};
  optimizer.save(archive);
  OptimizerWriter writer;
  if (!writer.take(*module_in(archive)._ivalue())) return std::nullopt;
  return std::move(writer.state);
}

RAYTRAIN_TORCH_INLINE auto parameter_number(std::string_view name) -> std::optional<std::size_t> {
  std::size_t number = 0;
  auto const [end, problem] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (problem != std::errc{} || end == name.data() + name.size() || *end != '.') return std::nullopt;
  return number;
}

RAYTRAIN_TORCH_INLINE auto stored_state(BytesView file, TensorIndex index, std::string_view attempted)
    -> OptimizerState {
  OptimizerState state{.tensors = {}, .values = std::move(index.metadata)};
  for (auto const& stored : index.tensors) {
    auto tensor = tensor_in(file, stored);
    if (!tensor) {
      throw Error{Errc::corrupt_checkpoint, std::string{attempted},
                  "it holds no state of an optimizer: tensor '" + stored.name + "' has the type " + stored.type,
                  state_remedy};
    }
    state.tensors.push_back({stored.name, *std::move(tensor)});
  }
  return state;
}

/// Puts together what `OptimizerWriter` took apart.
class OptimizerReader {
 public:
  OptimizerReader(BytesView file, TensorIndex index, at::Device device, std::string_view attempted)
      : file_{file}, device_{device}, attempted_{attempted}, index_{std::move(index)} {}

  [[nodiscard]] auto read() -> torch::serialize::InputArchive {
    read_tensors();
    auto root = new_archive();
    root.write("pytorch_version", value_of("pytorch_version"));
    auto states = new_archive();
    auto groups = new_archive();
    std::size_t count = 0;
    std::size_t first = 0;
    for (; index_.metadata.contains(fmt::format("group.{}.params", count)); ++count) {
      auto group = read_group(count, first);
      groups.write(fmt::format("param_groups/{}", count), group);
    }
    groups.write("param_groups/size", torch::tensor(static_cast<std::int64_t>(count)));
    for (std::size_t number = 0; number < first; ++number) {
      auto const prefix = fmt::format("{}.", number);
      auto state = new_archive();
      if (write_members(state, prefix)) states.write(std::to_string(number), state);
    }
    root.write("state", states);
    root.write("param_groups", groups);
    torch::serialize::InputArchive archive;
    module_in(archive) = module_in(root);
    return archive;
  }

 private:
  [[nodiscard]] auto new_archive() const -> torch::serialize::OutputArchive {
    return torch::serialize::OutputArchive{unit_};
  }

  void read_tensors() {
    std::vector<NamedTensor> tensors;
    for (auto const& stored : index_.tensors) {
      auto tensor = empty_like(stored, device_);
      if (!tensor) refuse("tensor '" + stored.name + "' has the type " + stored.type);
      tensors_.emplace(stored.name, *tensor);
      tensors.push_back({stored.name, *tensor});
    }
    copy_stored(file_, index_, tensors);
  }

  /// One group, whose parameters have the numbers from `first`, which is then that of the next group's first one.
  [[nodiscard]] auto read_group(std::size_t number, std::size_t& first) -> torch::serialize::OutputArchive {
    auto const prefix = fmt::format("group.{}.", number);
    auto const params = value_of(prefix + "params");
    constexpr std::int64_t most_params = 1 << 24;
    if (!params.isInt() || params.toInt() < 0 || params.toInt() > most_params) {
      refuse(prefix + "params is " + index_.metadata.at(prefix + "params"));
    }
    auto group = new_archive();
    group.write("params/size", torch::tensor(params.toInt()));
    for (std::int64_t i = 0; i < params.toInt(); ++i) {
      group.write(fmt::format("params/{}", i), c10::IValue{std::to_string(first++)});
    }
    auto options = new_archive();
    index_.metadata.erase(prefix + "params");
    (void)write_members(options, prefix);
    group.write("options", options);
    return group;
  }

  /// What has a name that begins so; false if there is nothing.
  auto write_members(torch::serialize::OutputArchive& archive, std::string const& prefix) -> bool {
    auto any = false;
    auto const is_member = [&](std::string const& name) { return name.starts_with(prefix); };
    for (auto i = index_.metadata.lower_bound(prefix); i != index_.metadata.end() && is_member(i->first); ++i) {
      archive.write(i->first.substr(prefix.size()), value_of(i->first));
      any = true;
    }
    for (auto i = tensors_.lower_bound(prefix); i != tensors_.end() && is_member(i->first); ++i) {
      auto const name = i->first.substr(prefix.size());
      if (name.find('.') != std::string::npos) continue;  // of a list, which the metadata name
      archive.write(name, i->second);
      any = true;
    }
    return any;
  }

  [[nodiscard]] auto value_of(std::string const& name) const -> c10::IValue {
    auto const text = index_.metadata.find(name);
    if (text == index_.metadata.end()) refuse("its metadata have no " + name);
    try {
      auto const json = parse_json(text->second, name);
      if (auto const* const object = json.get_if<JsonObject>()) return list_of(name, *object);
      return ivalue_of(name, json);
    } catch (Error const& error) {
      if (error.code() != Errc::invalid_data) throw;
      refuse(name + " " + error.happened());
    }
  }

  [[nodiscard]] auto ivalue_of(std::string const& name, JsonValue const& json) const -> c10::IValue {
    if (json.get_if<std::nullptr_t>() != nullptr) return {};
    if (auto const* const value = json.get_if<bool>()) return *value;
    if (auto const* const value = json.get_if<std::int64_t>()) return *value;
    if (auto const* const value = json.get_if<double>()) return *value;
    if (auto const* const value = json.get_if<std::string>()) return *value;
    auto const* const array = json.get_if<JsonArray>();
    if (array == nullptr) refuse(name + " is " + index_.metadata.at(name));
    std::vector<c10::IValue> elements;
    for (auto const& element : *array) elements.push_back(ivalue_of(name, element));
    return c10::ivalue::Tuple::create(std::move(elements));
  }

  [[nodiscard]] auto list_of(std::string const& name, JsonObject const& object) const -> c10::IValue {
    auto const* const size =
        object.size() == 1 && object[0].name == "tensors" ? object[0].value.get_if<std::int64_t>() : nullptr;
    constexpr std::int64_t most_tensors = 1 << 24;
    if (size == nullptr || *size < 0 || *size > most_tensors) refuse(name + " is " + index_.metadata.at(name));
    c10::List<at::Tensor> list;
    for (std::int64_t i = 0; i < *size; ++i) {
      auto const found = tensors_.find(fmt::format("{}.{}", name, i));
      list.push_back(found == tensors_.end() ? at::Tensor{} : found->second);
    }
    return list;
  }

  [[noreturn]] void refuse(std::string const& happened) const {
    throw Error{Errc::corrupt_checkpoint, std::string{attempted_}, "it holds no state of an optimizer: " + happened,
                state_remedy};
  }

  BytesView file_;
  at::Device device_;
  std::string_view attempted_;
  TensorIndex index_;
  std::map<std::string, at::Tensor> tensors_;
  std::shared_ptr<torch::jit::CompilationUnit> unit_ = std::make_shared<torch::jit::CompilationUnit>();
};

RAYTRAIN_TORCH_INLINE auto optimizer_archive(BytesView file, TensorIndex index, at::Device device,
                                             std::string_view attempted) -> torch::serialize::InputArchive {
  return OptimizerReader{file, std::move(index), device, attempted}.read();
}

RAYTRAIN_TORCH_INLINE auto device_of(torch::optim::Optimizer const& optimizer) -> at::Device {
  for (auto const& group : optimizer.param_groups()) {
    if (!group.params().empty()) return group.params().front().device();
  }
  return at::kCPU;
}

RAYTRAIN_TORCH_INLINE auto learning_rates(torch::optim::Optimizer& optimizer) -> std::vector<double> {
  std::vector<double> rates;
  try {
    for (auto& group : optimizer.param_groups()) rates.push_back(group.options().get_lr());
  } catch (c10::Error const&) {
    rates.clear();
  }
  return rates;
}

RAYTRAIN_TORCH_INLINE void load_learning_rates(torch::serialize::InputArchive& stored,
                                               torch::optim::Optimizer& optimizer) {
  torch::serialize::InputArchive groups;
  if (!stored.try_read("param_groups", groups)) return;
  for (std::size_t i = 0; i < optimizer.param_groups().size(); ++i) {
    torch::serialize::InputArchive group;
    torch::serialize::InputArchive options;
    c10::IValue rate;
    if (!groups.try_read("param_groups/" + std::to_string(i), group) || !group.try_read("options", options) ||
        !options.try_read("lr", rate)) {
      continue;
    }
    optimizer.param_groups()[i].options().set_lr(rate.toDouble());
  }
}

}  // namespace raytrain::detail
