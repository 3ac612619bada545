// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Stream.h>
#include <torch/torch.h>

#include <optional>

namespace raytrain::detail {

/// Brings batches to a worker's device, on a stream of its own: since the program runs ahead of the device, the copy of
/// one batch goes on while the device still computes with those before. On the CPU it does nothing.
///
/// Threads: any; the tensors are for the stream that is current in the calling one.
class DeviceCopies {
 public:
  /// Errors: `c10::Error` for a device that is not there.
  explicit DeviceCopies(torch::Device device);

  /// Of tensors to be filled on the CPU: in pinned memory, from which a device copies by itself.
  [[nodiscard]] auto cpu_options() const -> at::TensorOptions {
    return at::TensorOptions{}.pinned_memory(stream_.has_value());
  }

  /// What is in a tensor of `cpu_options`, which the caller does not change any more.
  ///
  /// Errors: `c10::Error` when the device's memory is full.
  /// Cost:   does not wait for the device.
  [[nodiscard]] auto to_device(at::Tensor const& on_cpu) const -> at::Tensor;

 private:
  torch::Device device_;
  std::optional<c10::Stream> stream_;
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/detail/device_copies-inl.hpp>
#endif
