// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <string>

#include <raytrain/collective/collective.hpp>
#include <raytrain/collective/cuda/device_memory.hpp>
#include <raytrain/collective/detail/task.hpp>
#include <raytrain/core/error.hpp>

namespace raytrain::detail {

/// A collective whose arrays lie in the memory of one device.
class DeviceModel : public Collective {
 public:
  [[nodiscard]] auto takes_device_arrays() const noexcept -> bool final { return true; }

  /// In the device's memory, which the CPU cannot read by itself.
  ///
  /// Errors: `std::bad_alloc`; `backend` when CUDA reports an error.
  [[nodiscard]] auto allocate_zeros(std::size_t size_bytes) -> std::shared_ptr<void> final {
    return allocate_on_device(stream_.device, size_bytes, stream_.stream);
  }

  [[nodiscard]] auto start(Task const& task) -> Pending final {
    DeviceScope const scope{stream_.device};
    auto const names = array_names(task.call.operation);
    if (!task.from.empty()) check_on_device(task.from.data(), names.from, task.call);
    if (!task.to.empty() && task.to.data() != task.from.data()) check_on_device(task.to.data(), names.to, task.call);
    perform(task);
    return {};
  }

 protected:
  explicit DeviceModel(DeviceStream stream) noexcept : stream_{stream} {}
  DeviceModel(DeviceModel&&) noexcept = default;
  auto operator=(DeviceModel&&) noexcept -> DeviceModel& = default;
  ~DeviceModel() override = default;

  [[nodiscard]] auto stream() const noexcept -> DeviceStream const& { return stream_; }

 private:
  /// With the device as the thread's own.
  virtual void perform(Task const& task) = 0;

  /// Errors: `invalid_call` unless the array lies in the device's memory, or in managed memory.
  void check_on_device(void const* array, char const* name, Call const& call) const {
    auto const attempted = to_string(call) + " on rank " + std::to_string(rank().value);
    auto const device = stream_.device;
    cudaPointerAttributes found{};
    check_cuda(cudaPointerGetAttributes(&found, array), attempted);
    if (found.type == cudaMemoryTypeManaged || (found.type == cudaMemoryTypeDevice && found.device == device)) return;
    bool const on_cpu = found.type != cudaMemoryTypeDevice;
    throw Error{Errc::invalid_call, attempted,
                std::string{name} + " must lie in the memory of device " + std::to_string(device) + " (got memory of " +
                    (on_cpu ? "the CPU)" : "device " + std::to_string(found.device) + ")"),
                on_cpu ? "copy it there by cudaMemcpy, or use LocalCollective for arrays in CPU memory"
                       : "give the collective the device of its arrays"};
  }

  DeviceStream stream_;
};

}  // namespace raytrain::detail
