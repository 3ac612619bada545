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
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include <raytrain/backend/torch/detail/own_default_generator.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain::detail {

/// The kernel of all operations that take a generator.
struct DrawsFromOwn {
  static auto is_generator(c10::Argument const& argument) -> bool { return argument.name() == "generator"; }

  static void call(c10::OperatorHandle const& operation, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
    auto const& arguments = operation.schema().arguments();
    auto const first = stack->size() - arguments.size();
    if (auto const* const own = own_of(operation.schema(), keys, torch::jit::last(*stack, arguments.size()));
        own != nullptr) {
      for (std::size_t i = 0; i < arguments.size(); ++i) {
        auto& value = (*stack)[first + i];
        if (is_generator(arguments[i]) && value.isNone()) value = *own;
      }
    }
    c10::impl::ExcludeDispatchKeyGuard const beyond{OwnDefaultGenerator::key};
    operation.callBoxed(stack);
  }

  /// The calling thread's, for an operation with such arguments; null where LibTorch's is to draw.
  static auto own_of(c10::FunctionSchema const& schema, c10::DispatchKeySet keys, at::ArrayRef<c10::IValue> arguments)
      -> at::Generator const* {
    auto const* const own = OwnDefaultGenerator::of_thread();
    if (own == nullptr) return nullptr;
    auto const is_on_gpu = keys.has_backend(c10::BackendComponent::CUDABit);  // be other arguments on the CPU
    if (!is_on_gpu && keys.has_backend(c10::BackendComponent::CPUBit)) return &own->generator_;
    if (!is_on_gpu) {
      // One that makes a tensor of none, as torch::normal(mean, std, sizes): where it is to be, or on the CPU.
      auto const device = schema.argumentIndexWithName("device");
      if (!device) return nullptr;
      auto const& where = arguments[static_cast<std::size_t>(*device)];
      if (where.isNone() || where.toDevice().is_cpu()) return &own->generator_;
      return where.toDevice().is_cuda() ? own->of(where.toDevice()) : nullptr;
    }
    auto const on_gpu = std::ranges::find_if(
        arguments, [](c10::IValue const& value) { return value.isTensor() && value.toTensor().is_cuda(); });
    return on_gpu != arguments.end() ? own->of(on_gpu->toTensor().device()) : nullptr;
  }
};

/// While it lives, LibTorch's default generator of a GPU goes on as another one would, which then is where it has come
/// to. One at a time in the process.
class InPlaceOfDefault {
 public:
  explicit InPlaceOfDefault(at::Generator const& own)
      : own_{own}, default_{at::globalContext().defaultGenerator(own.device())}, before_{exchange(own_.get_state())} {}
  InPlaceOfDefault(InPlaceOfDefault const&) = delete;
  auto operator=(InPlaceOfDefault const&) -> InPlaceOfDefault& = delete;
  ~InPlaceOfDefault() { own_.set_state(exchange(before_)); }

 private:
  static auto mutex() -> std::mutex& {
    static std::mutex one_at_a_time;
    return one_at_a_time;
  }

  auto exchange(at::Tensor const& state) -> at::Tensor {
    std::scoped_lock const lock{default_.mutex()};
    auto before = default_.get_state();
    default_.set_state(state);
    return before;
  }

  std::scoped_lock<std::mutex> turn_{mutex()};
  at::Generator own_;
  at::Generator default_;
  at::Tensor before_;
};

/// The kernel of operations that draw from a GPU's default generator, and take no other one.
struct DrawsFromDefault {
  static constexpr auto operations = {"aten::native_dropout", "aten::_scaled_dot_product_flash_attention",
                                      "aten::_scaled_dot_product_efficient_attention",
                                      "aten::_scaled_dot_product_cudnn_attention"};

  static void call(c10::OperatorHandle const& operation, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
    auto const count = operation.schema().arguments().size();
    std::optional<InPlaceOfDefault> in_place;
    if (keys.has_backend(c10::BackendComponent::CUDABit)) {
      auto const* const own = DrawsFromOwn::own_of(operation.schema(), keys, torch::jit::last(*stack, count));
      if (own != nullptr) in_place.emplace(*own);
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
  auto const add = [&](c10::OperatorName const& name, c10::KernelFunction kernel) {
    registered.push_back(dispatcher.registerImpl(name, key, std::move(kernel), {}, {}, "raytrain"));
  };
  for (auto const& name : dispatcher.getAllOpNames()) {
    if (!name.name.starts_with("aten::")) continue;
    auto const operation = dispatcher.findSchema(name);
    if (!operation || std::ranges::none_of(operation->schema().arguments(), &DrawsFromOwn::is_generator)) continue;
    add(name, c10::KernelFunction::makeFromBoxedFunction<&DrawsFromOwn::call>());
  }
  for (auto const* const name : DrawsFromDefault::operations) {
    if (!dispatcher.findSchema({name, ""})) continue;  // not every LibTorch has all
    add({name, ""}, c10::KernelFunction::makeFromBoxedFunction<&DrawsFromDefault::call>());
  }
}

RAYTRAIN_TORCH_INLINE auto OwnDefaultGenerator::of_thread() noexcept -> OwnDefaultGenerator*& {
  static thread_local OwnDefaultGenerator* own = nullptr;
  return own;
}

RAYTRAIN_TORCH_INLINE OwnDefaultGenerator::OwnDefaultGenerator(std::uint64_t seed, std::optional<torch::Device> device)
    : generator_{at::detail::createCPUGenerator(seed)}, mode_{registered_key()} {
  if (device && !device->is_cpu()) {
    of_gpu_ = at::globalContext().defaultGenerator(*device).clone();
    of_gpu_->set_current_seed(seed);
  }
  of_thread() = this;
}

RAYTRAIN_TORCH_INLINE auto OwnDefaultGenerator::of(torch::Device device) const noexcept -> at::Generator const* {
  if (device.is_cpu()) return &generator_;
  if (!of_gpu_ || !device.is_cuda()) return nullptr;
  return !device.has_index() || of_gpu_->device() == device ? &*of_gpu_ : nullptr;
}

RAYTRAIN_TORCH_INLINE auto OwnDefaultGenerator::current() -> at::Generator { return current(torch::kCPU); }

RAYTRAIN_TORCH_INLINE auto OwnDefaultGenerator::current(torch::Device device) -> at::Generator {
  auto const* const own = of_thread() != nullptr ? of_thread()->of(device) : nullptr;
  return own != nullptr ? *own : at::globalContext().defaultGenerator(device);
}

}  // namespace raytrain::detail
