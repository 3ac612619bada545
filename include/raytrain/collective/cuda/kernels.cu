// SPDX-License-Identifier: Apache-2.0
// All kernels of raytrain. To be compiled once for a program, by nvcc -std=c++20 --expt-relaxed-constexpr.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <raytrain/collective/cuda/detail/device_reduction.hpp>
#include <raytrain/collective/cuda/detail/reduce_elements.hpp>

namespace raytrain::detail {

namespace {

constexpr unsigned block_size = 256;
constexpr std::size_t blocks_per_processor = 8;  // 2048 threads: all that one holds at a time.

template <ReduceOp op, Element T>
__global__ void __launch_bounds__(block_size) reduce_kernel(__grid_constant__ DeviceReduction const reduction) {
  std::size_t const threads = std::size_t{gridDim.x} * blockDim.x;
  device::reduce_share<op, T>(reduction, std::size_t{blockIdx.x} * blockDim.x + threadIdx.x, threads);
}

auto is_aligned(DeviceReduction const& reduction) noexcept -> bool {
  auto bits = reinterpret_cast<std::uintptr_t>(reduction.target) | reduction.stride_bytes;
  auto const pointers = reduction.stride_bytes == 0 ? reduction.arrays : 1;
  for (std::uint32_t i = 0; i < pointers; ++i) bits |= reinterpret_cast<std::uintptr_t>(reduction.table[i]);
  return bits % 16 == 0;
}

auto kernel_of(DeviceReduction const& reduction) noexcept -> void const* {
  return device::with_op_and_type(
      reduction, [&]<ReduceOp op, Element T>() { return reinterpret_cast<void const*>(&reduce_kernel<op, T>); });
}

}  // namespace

auto reduce_on_device(DeviceReduction const& reduction, cudaStream_t stream) noexcept -> cudaError_t {
  if (reduction.count == 0) return cudaSuccess;
  int current = 0;
  int processors = 0;
  if (auto const result = cudaGetDevice(&current); result != cudaSuccess) return result;
  if (auto const result = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, current);
      result != cudaSuccess) {
    return result;
  }
  auto argument = reduction;
  argument.aligned = is_aligned(reduction);
  auto const at_once = argument.aligned ? 16 / size_bytes(argument.element) : 1;
  auto const wanted = (argument.count / at_once + block_size) / block_size;
  auto const blocks = std::min(wanted, static_cast<std::size_t>(processors) * blocks_per_processor);
  void* arguments[] = {&argument};
  return cudaLaunchKernel(kernel_of(argument), dim3{static_cast<unsigned>(blocks)}, dim3{block_size}, arguments, 0,
                          stream);
}

auto load_kernels() noexcept -> cudaError_t {
  DeviceReduction reduction;
  for (auto const op : {ReduceOp::sum, ReduceOp::average, ReduceOp::min, ReduceOp::max, ReduceOp::product}) {
    for (auto type = ElementType::float32; type <= ElementType::bfloat16;
         type = static_cast<ElementType>(static_cast<int>(type) + 1)) {
      reduction.op = op;
      reduction.element = type;
      cudaFuncAttributes ignored;
      if (auto const result = cudaFuncGetAttributes(&ignored, kernel_of(reduction)); result != cudaSuccess)
        return result;
    }
  }
  return cudaSuccess;
}

}  // namespace raytrain::detail
