// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include <raytrain/collective/collective.hpp>

namespace raytrain::detail {

/// The device on which a collective takes what lies on `device`: that one, or the CPU.
[[nodiscard]] inline auto exchange_device(Collective const& collective, torch::Device device) -> torch::Device {
  return collective.takes_device_arrays() ? device : torch::Device{torch::kCPU};
}

/// The elements of a contiguous tensor, for a collective: on a device not for the CPU.
template <class T>
[[nodiscard]] auto elements_of(at::Tensor const& tensor) -> std::span<T> {
  return {static_cast<T*>(tensor.data_ptr()), static_cast<std::size_t>(tensor.numel())};
}

/// Memory beside gradients, for what a collective exchanges; on the CPU that in which it is fastest.
class CollectiveMemory {
 public:
  /// A flat tensor of at least `size` elements, in which is what the call before has left.
  [[nodiscard]] auto at_least(std::int64_t size, at::TensorOptions const& options, Collective& collective)
      -> at::Tensor {
    if (!kept_.defined() || kept_.numel() < size || kept_.device() != options.device()) {
      kept_ = options.device().is_cpu() ? allocate(size, options, collective) : at::empty({size}, options);
    }
    return kept_;
  }

 private:
  static auto allocate(std::int64_t size, at::TensorOptions const& options, Collective& collective) -> at::Tensor {
    auto memory = collective.allocate_zeros(static_cast<std::size_t>(size) * options.dtype().itemsize());
    auto* const begin = memory.get();
    return torch::from_blob(
        begin, {size}, [memory = std::move(memory)](void*) {}, options);
  }

  at::Tensor kept_;
};

}  // namespace raytrain::detail
