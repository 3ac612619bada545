// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include <raytrain/collective/collective.hpp>
#include <raytrain/collective/cuda/device_memory.hpp>
#include <raytrain/collective/detail/task.hpp>

namespace raytrain::detail {

/// A collective whose arrays lie in the memory of one device.
class DeviceModel : public Collective {
 public:
  [[nodiscard]] auto takes_device_arrays() const noexcept -> bool final { return true; }

  /// In the device's memory, which the host cannot read by itself.
  ///
  /// Errors: `std::bad_alloc`; `backend` when CUDA reports an error.
  [[nodiscard]] auto allocate_zeros(std::size_t size_bytes) -> std::shared_ptr<void> final {
    return allocate_on_device(stream_.device, size_bytes, stream_.stream);
  }

  [[nodiscard]] auto start(Task const& task) -> Pending final {
    DeviceScope const scope{stream_.device};
    auto const names = array_names(task.call.operation);
    auto const* const from = task.from.empty() ? nullptr : task.from.data();
    auto* const to = task.to.empty() ? nullptr : task.to.data();
    if (from != nullptr) check_on_device(from, stream_.device, task.call, rank(), names.from);
    if (to != nullptr && to != from) check_on_device(to, stream_.device, task.call, rank(), names.to);
    perform(task.call, from, to, task.counts);
    return {};
  }

 protected:
  explicit DeviceModel(DeviceStream stream) noexcept : stream_{stream} {}
  DeviceModel(DeviceModel&&) noexcept = default;
  auto operator=(DeviceModel&&) noexcept -> DeviceModel& = default;
  ~DeviceModel() override = default;

  [[nodiscard]] auto stream() const noexcept -> DeviceStream const& { return stream_; }

 private:
  /// With the device as the thread's own. Null: this rank gives nothing, or gets nothing.
  virtual void perform(Call const& call, std::byte const* from, std::byte* to, std::span<std::size_t const> counts) = 0;

  DeviceStream stream_;
};

}  // namespace raytrain::detail
