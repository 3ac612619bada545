// SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <torch/torch.h>

#include <optional>
#include <string>
#include <string_view>

#include <raytrain/backend/torch/autocast.hpp>
#include <raytrain/backend/torch/detail/autocast_state.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>

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
    : former_{detail::AutocastState::of(device.type())} {
  auto state = former_;
  state.is_enabled = precision != Precision::fp32;
  state.has_cache = false;
  if (state.is_enabled) state.type = precision == Precision::fp16 ? at::kHalf : at::kBFloat16;
  try {
    state.put_in_place();
  } catch (c10::Error const& error) {
    throw Error{Errc::invalid_config, fmt::format("Precision::{} on {}", to_string(precision), device.str()),
                fmt::format("LibTorch {}.{} refuses it: {}", TORCH_VERSION_MAJOR, TORCH_VERSION_MINOR,
                            error.what_without_backtrace()),
                "use Precision::bf16, or a newer LibTorch"};
  }
}

RAYTRAIN_TORCH_INLINE auto computes_in(Precision precision, torch::Device device) -> std::optional<bool> {
  if (precision == Precision::fp32) return true;
  if (!device.is_cpu()) return std::nullopt;
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
