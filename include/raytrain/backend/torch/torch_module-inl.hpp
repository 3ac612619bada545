// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <c10/util/Exception.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/torch.h>

#include <raytrain/backend/torch/torch_module.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain {

namespace detail {

/// The last line of a message, which comes behind the lines of the script.
RAYTRAIN_TORCH_INLINE auto last_line(std::string_view text) -> std::string {
  while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  return std::string{text.substr(text.rfind('\n') + 1)};
}

RAYTRAIN_TORCH_INLINE void add_assigned_attributes(std::set<std::string>& names, torch::jit::Block const& block) {
  for (auto const* const node : block.nodes()) {
    if (node->kind() == torch::jit::prim::SetAttr) names.insert(node->s(torch::jit::attr::name));
    for (auto const* const inner : node->blocks()) add_assigned_attributes(names, *inner);
  }
}

/// Names of attributes that some method of the script, or of a submodule, puts something else in place of.
RAYTRAIN_TORCH_INLINE auto assigned_attributes(torch::jit::Module const& script) -> std::set<std::string> {
  std::set<std::string> names;
  for (auto const& module : script.modules()) {
    for (auto* const method : module.type()->methods()) {
      method->ensure_defined();
      auto* const function = torch::jit::tryToGraphFunction(*method);
      if (function != nullptr) add_assigned_attributes(names, *function->graph()->block());
    }
  }
  return names;
}

}  // namespace detail

RAYTRAIN_TORCH_INLINE ScriptModule::ScriptModule(torch::jit::Module script) : script_{std::move(script)} {
  mirror(*this, script_, detail::assigned_attributes(script_));
  for (auto const& assigned : buffers_) {
    for (auto& other : buffers_) {  // has one under two names
      if (assigned.may_be_replaced && other.tensor.is_same(assigned.tensor)) other.may_be_replaced = true;
    }
  }
  Module::train(script_.is_training());
}

RAYTRAIN_TORCH_INLINE void ScriptModule::mirror(torch::nn::Module& module, torch::jit::Module const& script,
                                                std::set<std::string> const& assigned) {
  for (auto const& parameter : script.named_parameters(/*recurse=*/false)) {
    module.register_parameter(parameter.name, parameter.value, parameter.value.requires_grad());
  }
  for (auto const& buffer : script.named_buffers(/*recurse=*/false)) {
    module.register_buffer(buffer.name, buffer.value);
    buffers_.push_back({script, buffer.name, buffer.value, assigned.contains(buffer.name)});
  }
  for (auto const& child : script.named_children()) {
    auto const submodule = std::make_shared<torch::nn::Module>(child.name);
    mirror(*submodule, child.value, assigned);
    module.register_module(child.name, submodule);
  }
}

RAYTRAIN_TORCH_INLINE void ScriptModule::train(bool on) {
  Module::train(on);
  script_.train(on);
}

RAYTRAIN_TORCH_INLINE void ScriptModule::give_buffers() {
  std::vector<torch::Tensor> given;
  for (auto& buffer : buffers_) {
    given.push_back(buffer.tensor);
    if (!buffer.may_be_replaced || !torch::GradMode::is_enabled()) continue;
    auto const same =
        std::ranges::find_if(buffers_.begin(), buffers_.begin() + static_cast<std::ptrdiff_t>(given.size()) - 1,
                             [&](Buffer const& other) { return other.tensor.is_same(buffer.tensor); });
    auto const first = static_cast<std::size_t>(same - buffers_.begin());
    given.back() = first + 1 < given.size() ? given[first] : buffer.tensor.clone();
    buffer.owner.setattr(buffer.name, given.back());
  }
}

RAYTRAIN_TORCH_INLINE void ScriptModule::take_buffers() {
  torch::NoGradGuard const no_grad;
  for (auto& buffer : buffers_) {
    auto const now = buffer.owner.attr(buffer.name).toTensor();
    if (now.is_same(buffer.tensor)) continue;
    buffer.tensor.copy_(now);
    buffer.owner.setattr(buffer.name, buffer.tensor);
  }
}

RAYTRAIN_TORCH_INLINE auto ScriptModule::call(std::vector<c10::IValue> inputs) -> torch::Tensor {
  auto const refuse = [](std::string_view said) {
    return Error{Errc::backend, "running TorchScript", detail::last_line(said), "give what its forward takes"};
  };
  try {
    give_buffers();
    auto output = script_.forward(std::move(inputs)).toTensor();
    take_buffers();
    return output;
  } catch (c10::Error const& error) {
    throw refuse(error.what_without_backtrace());
  } catch (std::runtime_error const& error) {  // of the interpreter, in LibTorch 1.13
    throw refuse(error.what());
  }
}

}  // namespace raytrain
