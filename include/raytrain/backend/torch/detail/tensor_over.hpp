// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <memory>

namespace raytrain::detail {

/// A tensor over memory that is not LibTorch's, on the device where it lies, which it keeps alive.
[[nodiscard]] inline auto tensor_over(std::shared_ptr<void> const& memory, at::IntArrayRef sizes,
                                      at::IntArrayRef strides, at::ScalarType type, at::Device device) -> at::Tensor {
  // With the device, since LibTorch cannot ask memory of no bytes where it lies.
  return at::from_blob(
      memory.get(), sizes, strides, [memory](void*) {}, at::TensorOptions{}.dtype(type).device(device), device);
}

/// The same without holes, of memory that outlives it.
[[nodiscard]] inline auto tensor_over(void* memory, at::IntArrayRef sizes, at::ScalarType type, at::Device device)
    -> at::Tensor {
  return at::from_blob(
      memory, sizes, c10::contiguous_strides(sizes), [](void*) {}, at::TensorOptions{}.dtype(type).device(device),
      device);
}

}  // namespace raytrain::detail
