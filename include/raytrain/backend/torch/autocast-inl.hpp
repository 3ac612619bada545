// SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <ATen/autocast_mode.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <torch/torch.h>

#include <optional>
#include <string>
#include <string_view>

#include <raytrain/backend/torch/autocast.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain::detail {

/// LibTorch has named these by the device since 2.4; before, it had a function of its own for the CPU, and others.
struct AutocastMode {
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)
  static auto is_enabled(at::DeviceType device) -> bool { return at::autocast::is_autocast_enabled(device); }
  static auto type(at::DeviceType device) -> at::ScalarType { return at::autocast::get_autocast_dtype(device); }
  static void set_enabled(at::DeviceType device, bool enabled) { at::autocast::set_autocast_enabled(device, enabled); }
  static void set_type(at::DeviceType device, at::ScalarType type) { at::autocast::set_autocast_dtype(device, type); }
#else
  static auto is_enabled(at::DeviceType device) -> bool {
    return device == at::kCPU ? at::autocast::is_cpu_enabled() : at::autocast::is_enabled();
  }
  static auto type(at::DeviceType device) -> at::ScalarType {
    return device == at::kCPU ? at::autocast::get_autocast_cpu_dtype() : at::autocast::get_autocast_gpu_dtype();
  }
  static void set_enabled(at::DeviceType device, bool enabled) {
    device == at::kCPU ? at::autocast::set_cpu_enabled(enabled) : at::autocast::set_enabled(enabled);
  }
  static void set_type(at::DeviceType device, at::ScalarType type) {
    device == at::kCPU ? at::autocast::set_autocast_cpu_dtype(type) : at::autocast::set_autocast_gpu_dtype(type);
  }
#endif
};

}  // namespace raytrain::detail

namespace raytrain {

RAYTRAIN_TORCH_INLINE auto to_string(Precision precision) noexcept -> std::string_view {
  switch (precision) {
    case Precision::bf16: return "bf16";
    case Precision::fp16: return "fp16";
    default: return "fp32";
  }
}

RAYTRAIN_TORCH_INLINE auto precision_named(std::string_view name) -> Precision {
  for (auto const precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
    if (name == to_string(precision)) return precision;
  }
  throw Error{Errc::invalid_config, "a precision", fmt::format("must be fp32, bf16 or fp16 (got '{}')", name),
              "write one of these"};
}

RAYTRAIN_TORCH_INLINE Autocast::Autocast(Precision precision, torch::Device device)
    : device_{device.type()},
      was_enabled_{detail::AutocastMode::is_enabled(device_)},
      had_cache_{at::autocast::is_autocast_cache_enabled()},
      former_type_{detail::AutocastMode::type(device_)} {
  auto const type = precision == Precision::fp16 ? at::kHalf : at::kBFloat16;
  try {
    set(precision != Precision::fp32, precision == Precision::fp32 ? former_type_ : type);
  } catch (c10::Error const& error) {
    throw Error{Errc::invalid_config, fmt::format("Precision::{} on {}", to_string(precision), device.str()),
                fmt::format("LibTorch {}.{} refuses it: {}", TORCH_VERSION_MAJOR, TORCH_VERSION_MINOR,
                            error.what_without_backtrace()),
                "use Precision::bf16, or a newer LibTorch"};
  }
  at::autocast::set_autocast_cache_enabled(false);
}

RAYTRAIN_TORCH_INLINE Autocast::~Autocast() {
  at::autocast::set_autocast_cache_enabled(had_cache_);
  set(was_enabled_, former_type_);
}

RAYTRAIN_TORCH_INLINE void Autocast::set(bool enabled, at::ScalarType type) const {
  if (type != detail::AutocastMode::type(device_)) detail::AutocastMode::set_type(device_, type);
  detail::AutocastMode::set_enabled(device_, enabled);
}

RAYTRAIN_TORCH_INLINE auto computes_in(Precision precision) -> std::optional<bool> {
  if (precision == Precision::fp32) return true;
#if defined(__x86_64__)
  // By CPUID: not every compiler's __builtin_cpu_supports knows the names of the two.
  struct Leaf {
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
    explicit Leaf(unsigned subleaf) { __get_cpuid_count(7, subleaf, &eax, &ebx, &ecx, &edx); }
  };
  if (!__builtin_cpu_supports("avx512f")) return false;  // the system saves such registers
  return precision == Precision::bf16 ? (Leaf{1}.eax >> 5 & 1) != 0 : (Leaf{0}.edx >> 23 & 1) != 0;
#else
  return std::nullopt;
#endif
}

RAYTRAIN_TORCH_INLINE auto precision_advice(Precision precision, std::optional<bool> has_instructions)
    -> std::optional<std::string> {
  if (has_instructions.value_or(true)) return std::nullopt;
  return fmt::format(
      "this processor has no instructions for {}: LibTorch emulates it, which trains the same and may be several times "
      "slower than fp32",
      to_string(precision));
}

}  // namespace raytrain
