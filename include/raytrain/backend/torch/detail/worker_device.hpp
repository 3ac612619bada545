// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <c10/core/Stream.h>

#include <raytrain/backend/torch/detail/device_arrays.hpp>
#include <raytrain/backend/torch/torch_config.hpp>
#include <raytrain/collective/collective.hpp>
#include <raytrain/config/scaling_config.hpp>
#include <raytrain/launch/device_share.hpp>
#include <raytrain/launch/worker_link.hpp>

namespace raytrain::detail {

/// The devices that workers of this process may train on: the GPUs that LibTorch sees. Tests pretend that there are
/// some, which are the CPU, or of a type that the test has taught LibTorch.
struct Devices {
  at::DeviceType type = at::kCUDA;
  int count = 0;

  [[nodiscard]] static auto here() -> Devices;
  /// As NVIDIA's driver calls them, in their order; none where it cannot be asked.
  [[nodiscard]] static auto names() -> std::vector<std::string>;
  static void pretend(int count, at::DeviceType type = at::kCPU);  ///< For tests; 0 ends it.
};

/// Before any worker starts.
///
/// Errors: `invalid_config` if there is no GPU (says why), or fewer than the workers known to use this host ask for.
void check_devices(ScalingConfig const& scaling);

/// Where a worker trains: on the CPU, or on GPUs. As long as it lives its GPU is the thread's current device, backwards
/// run on the worker's own thread and not on one of LibTorch's that all workers on a device share, and where several
/// share it each has a stream of its own. Processes that share one have a part of its memory each, for good.
///
/// Threads: the worker's, which makes and destroys it.
class WorkerDevice {
 public:
  struct Options {
    ScalingConfig const& scaling;
    GpuExchange exchange = GpuExchange::automatic;
    WorkerLink& link;
    Collective& collective;
    std::chrono::milliseconds collective_timeout{};  ///< As in `RunConfig`.
  };

  /// A group operation with GPUs.
  ///
  /// Errors: as `share_devices`, on all ranks of the host; `invalid_config` for a GPU of another name than
  ///         `ScalingConfig::accelerator_type`.
  explicit WorkerDevice(Options const& options);
  WorkerDevice(WorkerDevice const&) = delete;
  auto operator=(WorkerDevice const&) -> WorkerDevice& = delete;
  ~WorkerDevice();

  /// The first one.
  [[nodiscard]] auto device() const noexcept -> at::Device { return index_of(0); }
  [[nodiscard]] auto devices() const -> std::vector<at::Device>;
  /// The device, if it is not the CPU.
  [[nodiscard]] auto gpu() const noexcept -> std::optional<at::Device>;

  /// The same, if LibTorch draws random numbers there that raytrain can give to each worker.
  [[nodiscard]] auto drawing_gpu() const noexcept -> std::optional<at::Device> {
    return type_ == at::kCUDA ? gpu() : std::nullopt;
  }

  /// Moves a model there.
  void place(torch::nn::Module& model) const {
    if (gpu()) model.to(device());
  }

  /// For arrays in the device's memory: on the CPU the worker's collective.
  [[nodiscard]] auto arrays() noexcept -> Collective& {
    return arrays_ ? static_cast<Collective&>(*arrays_) : collective_;
  }
  /// Null on the CPU.
  [[nodiscard]] auto on_device() noexcept -> DeviceArrays* { return arrays_.get(); }

 private:
  void choose(ScalingConfig const& scaling, Placement const& placement);
  /// Before LibTorch gives out memory of the GPU.
  void take_memory_share(WorkerLink& link) const;
  /// A group operation. Errors: `invalid_config` for a way that these workers cannot go.
  [[nodiscard]] auto make_arrays(Options const& options) -> std::unique_ptr<DeviceArrays>;
  void leave() noexcept;
  [[nodiscard]] auto index_of(std::size_t i) const noexcept -> at::Device {
    return type_ == at::kCPU ? at::kCPU : at::Device{type_, static_cast<at::DeviceIndex>(share_.devices[i])};
  }

  Collective& collective_;
  at::DeviceType type_ = at::kCPU;
  DeviceShare share_;
  std::unique_ptr<DeviceArrays> arrays_;
  std::optional<at::Device> former_device_;
  std::optional<c10::Stream> former_stream_;
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/detail/worker_device-inl.hpp>
#endif
