// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include <raytrain/collective/detail/task.hpp>
#include <raytrain/core/error.hpp>

namespace raytrain::detail {

/// What a reader can do about it; empty where that depends on the program.
[[nodiscard]] inline auto remedy_of(cudaError_t result) -> std::string {
  switch (result) {
    case cudaErrorNoDevice:
      return "run it where an NVIDIA GPU is, and let CUDA_VISIBLE_DEVICES name it; LocalCollective works without one";
    case cudaErrorInsufficientDriver:
      return "install an NVIDIA driver for this CUDA runtime or a newer one; where there is no GPU, LocalCollective "
             "works";
    case cudaErrorInvalidDevice: return "name a device that nvidia-smi lists and CUDA_VISIBLE_DEVICES leaves visible";
    case cudaErrorMemoryAllocation: return "make the arrays or the batch smaller; another process may fill the device";
    case cudaErrorNoKernelImageForDevice:
      return "compile raytrain/collective/cuda/kernels.cu for this GPU's architecture as well (nvcc -gencode)";
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
      return "a kernel went wrong, perhaps one before this call: run the program under compute-sanitizer";
    default: return {};
  }
}

/// Every return code of CUDA passes here. `attempted` says what it was needed for.
///
/// Errors: `backend` unless it is `cudaSuccess`.
inline void check_cuda(cudaError_t result, std::string const& attempted) {
  if (result == cudaSuccess) return;
  // CUDA reports an error once more to whoever asks next, who has nothing to do with it.
  (void)cudaGetLastError();
  throw Error{Errc::backend, attempted, std::string{cudaGetErrorName(result)} + " (" + cudaGetErrorString(result) + ")",
              remedy_of(result)};
}

}  // namespace raytrain::detail

namespace raytrain {

/// Where a rank's arrays lie, and in which order with other work on them.
struct DeviceStream {
  int device = 0;  ///< As CUDA counts those that CUDA_VISIBLE_DEVICES leaves visible.

  /// Operations wait for what was put on it before; when they return, nothing of theirs is left on it. Null: the
  /// device's default stream, in a program that is compiled with one for all threads. It must outlive the collective.
  cudaStream_t stream = nullptr;
};

namespace detail {

/// Makes a device the thread's current one, as long as it lives.
class DeviceScope {
 public:
  explicit DeviceScope(int device) {
    check_cuda(cudaGetDevice(&before_), "cudaGetDevice");
    changed_ = device != before_;
    if (changed_) check_cuda(cudaSetDevice(device), "cudaSetDevice(" + std::to_string(device) + ")");
  }
  DeviceScope(DeviceScope const&) = delete;
  auto operator=(DeviceScope const&) -> DeviceScope& = delete;
  ~DeviceScope() {
    if (changed_) (void)cudaSetDevice(before_);
  }

 private:
  int before_ = 0;
  bool changed_ = false;
};

/// A point in a stream of a device.
class DeviceEvent {
 public:
  explicit DeviceEvent(int device) {
    DeviceScope const scope{device};
    check_cuda(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreate");
  }
  DeviceEvent(DeviceEvent&& other) noexcept : event_{std::exchange(other.event_, nullptr)} {}
  auto operator=(DeviceEvent&& other) noexcept -> DeviceEvent& {
    std::swap(event_, other.event_);
    return *this;
  }
  ~DeviceEvent() {
    if (event_ != nullptr) (void)cudaEventDestroy(event_);
  }

  [[nodiscard]] auto get() const noexcept -> cudaEvent_t { return event_; }

  /// After all that is on the stream now.
  void record(cudaStream_t stream) { check_cuda(cudaEventRecord(event_, stream), "cudaEventRecord"); }

  /// Whether the stream has come there.
  ///
  /// Errors: `backend` for what went wrong on the device until then.
  [[nodiscard]] auto is_over(std::string const& attempted) const -> bool {
    auto const result = cudaEventQuery(event_);
    if (result == cudaErrorNotReady) {
      (void)cudaGetLastError();
      return false;
    }
    check_cuda(result, attempted);
    return true;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

/// Memory that grows with what is asked of it, and keeps no contents when it does.
template <cudaError_t allocate(void**, std::size_t), cudaError_t release(void*)>
class GrowingBuffer {
 public:
  GrowingBuffer() = default;
  GrowingBuffer(GrowingBuffer&& other) noexcept
      : memory_{std::exchange(other.memory_, nullptr)}, size_bytes_{std::exchange(other.size_bytes_, 0)} {}
  auto operator=(GrowingBuffer&& other) noexcept -> GrowingBuffer& {
    std::swap(memory_, other.memory_);
    std::swap(size_bytes_, other.size_bytes_);
    return *this;
  }
  ~GrowingBuffer() {
    if (memory_ != nullptr) (void)release(memory_);
  }

  [[nodiscard]] auto at_least(std::size_t wanted_bytes) -> std::byte* {
    if (wanted_bytes > size_bytes_) {
      if (memory_ != nullptr) check_cuda(release(std::exchange(memory_, nullptr)), "cudaFree");
      size_bytes_ = 0;
      check_cuda(allocate(&memory_, wanted_bytes), "memory of " + std::to_string(wanted_bytes) + " bytes");
      size_bytes_ = wanted_bytes;
    }
    return static_cast<std::byte*>(memory_);
  }

 private:
  void* memory_ = nullptr;
  std::size_t size_bytes_ = 0;
};

/// On the current device.
using DeviceBuffer = GrowingBuffer<&cudaMalloc, &cudaFree>;
/// In CPU memory, where the device can reach it by itself.
using PinnedBuffer = GrowingBuffer<&cudaMallocHost, &cudaFreeHost>;

/// Zeros on the device, as of what comes next on the stream and for the CPU.
///
/// Errors: `std::bad_alloc` when there is no room, `backend`.
[[nodiscard]] inline auto allocate_on_device(int device, std::size_t bytes, cudaStream_t stream)
    -> std::shared_ptr<void> {
  if (bytes == 0) return nullptr;
  DeviceScope const scope{device};
  void* memory = nullptr;
  auto const result = cudaMalloc(&memory, bytes);
  if (result == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    throw std::bad_alloc{};
  }
  check_cuda(result, "cudaMalloc");
  std::shared_ptr<void> const array{memory, [](void* of) { (void)cudaFree(of); }};
  check_cuda(cudaMemsetAsync(memory, 0, bytes, stream), "cudaMemsetAsync");
  check_cuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  return array;
}

/// Errors: `backend` where there is no GPU or no driver, `invalid_call` for a device that there is not.
inline void check_device(int device, std::string const& attempted) {
  int devices = 0;
  check_cuda(cudaGetDeviceCount(&devices), attempted);
  if (device >= 0 && device < devices) return;
  throw Error{Errc::invalid_call, attempted,
              "device must be from 0 to " + std::to_string(devices - 1) + " (got " + std::to_string(device) + ")",
              remedy_of(cudaErrorInvalidDevice)};
}

/// What the arrays of an operation are called in its signature.
struct ArrayNames {
  char const* from;
  char const* to;
};

[[nodiscard]] constexpr auto array_names(Operation operation) noexcept -> ArrayNames {
  switch (operation) {
    case Operation::all_gather:
    case Operation::all_gatherv:
    case Operation::gather: return {"mine", "all"};
    case Operation::reduce_scatter:
    case Operation::scatter: return {"all", "mine"};
    default: return {"values", "values"};
  }
}

}  // namespace detail
}  // namespace raytrain
