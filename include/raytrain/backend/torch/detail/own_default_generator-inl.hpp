// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <raytrain/backend/torch/detail/own_default_generator.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain::detail {

/// The kernel of all operations that take a generator.
struct DrawsFromOwn {
  static auto is_generator(c10::Argument const& argument) -> bool { return argument.name() == "generator"; }

  static void call(c10::OperatorHandle const& operation, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
    auto const* const own = OwnDefaultGenerator::of_thread();
    if (own != nullptr && keys.has_backend(c10::BackendComponent::CPUBit)) {
      auto const& arguments = operation.schema().arguments();
      auto const first = stack->size() - arguments.size();
      for (std::size_t i = 0; i < arguments.size(); ++i) {
        auto& value = (*stack)[first + i];
        if (is_generator(arguments[i]) && value.isNone()) value = *own;
      }
    }
    c10::impl::ExcludeDispatchKeyGuard const beyond{OwnDefaultGenerator::key};
    operation.callBoxed(stack);
  }
};

RAYTRAIN_TORCH_INLINE auto OwnDefaultGenerator::registered_key() -> c10::DispatchKey {
  [[maybe_unused]] static auto const once = (register_kernels(), true);
  return key;
}

RAYTRAIN_TORCH_INLINE void OwnDefaultGenerator::register_kernels() {
  auto& dispatcher = c10::Dispatcher::singleton();
  // As long as the process lives, since threads may be within an operation while it ends.
  static auto& registered = *new std::vector<c10::RegistrationHandleRAII>;
  registered.push_back(dispatcher.registerFallback(key, c10::KernelFunction::makeFallthrough(), "raytrain"));
  for (auto const& name : dispatcher.getAllOpNames()) {
    if (!name.name.starts_with("aten::")) continue;
    auto const operation = dispatcher.findSchema(name);
    if (!operation || std::ranges::none_of(operation->schema().arguments(), &DrawsFromOwn::is_generator)) continue;
    registered.push_back(dispatcher.registerImpl(
        name, key, c10::KernelFunction::makeFromBoxedFunction<&DrawsFromOwn::call>(), {}, {}, "raytrain"));
  }
}

RAYTRAIN_TORCH_INLINE auto OwnDefaultGenerator::of_thread() noexcept -> at::Generator*& {
  static thread_local at::Generator* own = nullptr;
  return own;
}

RAYTRAIN_TORCH_INLINE OwnDefaultGenerator::OwnDefaultGenerator(std::uint64_t seed)
    : generator_{at::detail::createCPUGenerator(seed)}, mode_{registered_key()} {
  of_thread() = &generator_;
}

RAYTRAIN_TORCH_INLINE auto OwnDefaultGenerator::current() -> at::Generator {
  auto const* const own = of_thread();
  return own != nullptr ? *own : at::detail::getDefaultCPUGenerator();
}

}  // namespace raytrain::detail
