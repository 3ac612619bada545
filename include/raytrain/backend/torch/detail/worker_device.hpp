// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <c10/core/Stream.h>

#include <raytrain/backend/torch/detail/device_arrays.hpp>
#include <raytrain/backend/torch/torch_config.hpp>
#include <raytrain/collective/collective.hpp>
#include <raytrain/config/scaling_config.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/launch/worker_link.hpp>

namespace raytrain::detail {

/// The devices that workers of this process may train on: the GPUs that LibTorch sees. Tests pretend that there are
/// some, whose memory is the host's.
struct Devices {
  at::DeviceType type = at::kCUDA;
  int count = 0;

  [[nodiscard]] static auto here() -> Devices;
  static void pretend(int count);  ///< For tests; 0 ends it.
};

/// Which of so many devices a worker gets, and how many workers share each.
struct DeviceShare {
  std::vector<int> devices;
  std::uint32_t workers = 1;
};

/// `worker`: its number among those that divide the devices.
///
/// Errors: `invalid_config` where there are too few devices for so many workers, with how many there are.
[[nodiscard]] auto share_devices(std::uint32_t worker, std::uint32_t workers, double gpus, int devices) -> DeviceShare;

/// Before any worker starts. Errors: `invalid_config` where there is no GPU, or are fewer than one worker asks for.
void check_devices(ScalingConfig const& scaling);

/// What a worker that trains on a GPU has for it, as long as it lives: the device is the thread's current one,
/// backwards run on the worker's own thread and not on one of LibTorch's that all workers on a device share, and where
/// several share it each has a stream of its own.
///
/// Threads: the worker's, which makes and destroys it.
class WorkerDevice {
 public:
  /// A group operation. Errors: as `share_devices`, on all ranks of the host; `invalid_config` for a GPU of another
  /// name than `ScalingConfig::accelerator_type`.
  WorkerDevice(ScalingConfig const& scaling, TorchConfig const& config, Placement const& placement,
               Collective& collective);
  WorkerDevice(WorkerDevice const&) = delete;
  auto operator=(WorkerDevice const&) -> WorkerDevice& = delete;
  ~WorkerDevice();

  [[nodiscard]] auto device() const noexcept -> at::Device { return {type_, index(0)}; }
  [[nodiscard]] auto devices() const -> std::vector<at::Device>;

  /// Of arrays on the device.
  [[nodiscard]] auto arrays() noexcept -> DeviceArrays& { return *arrays_; }

 private:
  [[nodiscard]] auto index(std::size_t i) const noexcept -> at::DeviceIndex {
    return type_ == at::kCPU ? at::DeviceIndex{-1} : static_cast<at::DeviceIndex>(share_.devices[i]);
  }

  at::DeviceType type_;
  DeviceShare share_;
  std::unique_ptr<DeviceArrays> arrays_;
  std::optional<at::Device> former_device_;
  std::optional<c10::Stream> former_stream_;
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/detail/worker_device-inl.hpp>
#endif
