// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/autocast_mode.h>
#include <torch/torch.h>

#include <raytrain/backend/torch/detail/autocast_state.hpp>
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

RAYTRAIN_TORCH_INLINE auto AutocastState::of(at::DeviceType device) -> AutocastState {
  return {device, AutocastMode::is_enabled(device), at::autocast::is_autocast_cache_enabled(),
          AutocastMode::type(device)};
}

RAYTRAIN_TORCH_INLINE void AutocastState::put_in_place() const {
  if (type != AutocastMode::type(device)) AutocastMode::set_type(device, type);
  AutocastMode::set_enabled(device, is_enabled);
  at::autocast::set_autocast_cache_enabled(has_cache);
}

}  // namespace raytrain::detail
