// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <torch/version.h>

#include <algorithm>
#include <optional>
#include <string>

#include <c10/core/Allocator.h>
#include <c10/core/DeviceType.h>
#if __has_include(<c10/core/AllocatorConfig.h>)
#include <c10/core/AllocatorConfig.h>
#include <c10/core/CachingDeviceAllocator.h>
#endif

#include <raytrain/backend/torch/detail/memory_share.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/launch/device_share.hpp>

namespace raytrain::detail {

inline constexpr auto memory_fraction_setting = "per_process_memory_fraction";

RAYTRAIN_TORCH_INLINE auto memory_fraction(DeviceShare const& share, WorldSize of_process) noexcept
    -> std::optional<double> {
  if (of_process.value >= share.workers) return std::nullopt;
  constexpr double for_allocator = 0.95;  // CUDA takes some for each process beside it
  return for_allocator * of_process.value / share.workers;
}

RAYTRAIN_TORCH_INLINE auto MemoryLimiter::of_libtorch() -> MemoryLimiter {
  MemoryLimiter limiter;
#if __has_include(<c10/core/AllocatorConfig.h>)
  limiter.has_limit = c10::CachingAllocator::AcceleratorAllocatorConfig::getKeys().contains(memory_fraction_setting);
  auto* const allocator = dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(c10::DeviceType::CUDA));
  limiter.is_used = allocator != nullptr && allocator->initialized();
  limiter.settings = c10::CachingAllocator::getAllocatorSettings();
  limiter.set = [](std::string const& settings) { c10::CachingAllocator::setAllocatorSettings(settings); };
#endif
  return limiter;
}

RAYTRAIN_TORCH_INLINE auto limit_memory(double fraction, MemoryLimiter const& limiter) -> std::optional<std::string> {
  if (limiter.settings.find(memory_fraction_setting) != std::string::npos) return std::nullopt;
  auto const unlimited = fmt::format(
      "processes share a GPU, and this one is not kept to its part of the memory, {:.4g} of it: ", fraction);
  if (!limiter.has_limit) {
    return fmt::format("{}LibTorch {}.{} has no {}; use LibTorch 2.10 or newer, or workers that are threads", unlimited,
                       TORCH_VERSION_MAJOR, TORCH_VERSION_MINOR, memory_fraction_setting);
  }
  auto const setting = fmt::format("{}:{:.4g}", memory_fraction_setting, fraction);
  if (limiter.is_used) {
    return fmt::format("{}the program has used the GPU before; set PYTORCH_ALLOC_CONF={} for it", unlimited, setting);
  }
  // All that is not named is set back.
  limiter.set(limiter.settings.empty() ? setting : limiter.settings + ',' + setting);
  return std::nullopt;
}

}  // namespace raytrain::detail
