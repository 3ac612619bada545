// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include <raytrain/collective/reduce_op.hpp>
#include <raytrain/core/element_type.hpp>

namespace raytrain::detail {

/// A reduction of arrays in a device's memory, element by element and in the order of the arrays. A kernel's argument:
/// it is copied to the device as it is.
struct DeviceReduction {
  static constexpr std::uint32_t max_arrays = 256;  ///< Whose addresses may differ at will.

  ElementType element{};
  ReduceOp op{};
  bool aligned = false;          ///< `reduce_on_device` finds out: all arrays begin at a multiple of 16 bytes.
  std::uint32_t arrays = 0;      ///< At least 1; at most `max_arrays` unless `stride_bytes` says where they are.
  std::uint32_t divisor = 1;     ///< What an average divides by.
  std::size_t count = 0;         ///< Elements of each array.
  void* target = nullptr;        ///< Where the result goes; it may be one of the arrays. Null: all of them.
  std::size_t stride_bytes = 0;  ///< Above 0: each array begins so many bytes after the one before it, from table[0].
  void* table[max_arrays] = {};
};

/// Puts the reduction on the stream, on the calling thread's current device. Sums of Float16 and BFloat16 are formed in
/// float. Returns CUDA's error when it cannot start.
///
/// Compiled by nvcc: raytrain/collective/cuda/kernels.cu, in meson the library raytrain-cuda.
///
/// Cost: (arrays + 1) * sizeof(T) bytes an element; twice as many arrays instead of the one where they are the targets.
auto reduce_on_device(DeviceReduction const& reduction, cudaStream_t stream) noexcept -> cudaError_t;

/// Loads all kernels to the current device, which CUDA else does when each is first needed: it then waits for what the
/// device is at work on, and that may be an operation which waits for this very thread. Returns CUDA's error.
auto load_kernels() noexcept -> cudaError_t;

}  // namespace raytrain::detail
