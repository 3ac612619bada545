// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

namespace raytrain::detail {

/// How a thread's operations on a device choose the type in which they compute: LibTorch's autocast.
///
/// Threads: each has its own.
struct AutocastState {
  at::DeviceType device;
  bool is_enabled;
  bool has_cache;  ///< Of converted parameters; of all devices.
  at::ScalarType type;

  /// That of the calling thread.
  [[nodiscard]] static auto of(at::DeviceType device) -> AutocastState;

  /// Errors: `c10::Error` for a type that this LibTorch has not on the device; then all is as before.
  void put_in_place() const;
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/detail/autocast_state-inl.hpp>
#endif
