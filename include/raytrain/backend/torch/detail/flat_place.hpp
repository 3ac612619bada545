// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <vector>

/// How tensors lie one behind the other in a flat array of their element type.
namespace raytrain::detail {

/// A cache line, so that no two tensors share one.
inline constexpr std::int64_t flat_alignment_bytes = 64;

/// So many elements, rounded up to whole cache lines.
[[nodiscard]] inline auto flat_extent(std::int64_t elements, at::ScalarType type) -> std::int64_t {
  auto const line = flat_alignment_bytes / static_cast<std::int64_t>(c10::elementSize(type));
  return (elements + line - 1) / line * line;
}

/// The tensor's own, where it lies without holes, as autograd likes gradients; else those of rows.
[[nodiscard]] inline auto flat_strides(at::Tensor const& tensor) -> std::vector<std::int64_t> {
  if (tensor.is_non_overlapping_and_dense()) return tensor.strides().vec();
  std::vector<std::int64_t> strides(static_cast<std::size_t>(tensor.dim()));
  std::int64_t stride = 1;
  for (auto i = strides.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= tensor.size(static_cast<std::int64_t>(i));
  }
  return strides;
}

}  // namespace raytrain::detail
