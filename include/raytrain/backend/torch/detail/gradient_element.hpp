// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <raytrain/core/float16.hpp>

/// The types in which gradients are averaged: float, double, and those of 16 bits, whose sums are formed in float.
namespace raytrain::detail {

[[nodiscard]] inline auto is_short(at::ScalarType type) noexcept -> bool {
  return type == at::kHalf || type == at::kBFloat16;
}

[[nodiscard]] inline auto is_gradient_type(at::ScalarType type) noexcept -> bool {
  return type == at::kFloat || type == at::kDouble || is_short(type);
}

/// Calls `function` with a value of what a collective takes for such a type.
template <class F>
auto with_gradient_element(at::ScalarType type, F const& function) {
  switch (type) {
    case at::kDouble: return function(double{});
    case at::kHalf: return function(Float16{});
    case at::kBFloat16: return function(BFloat16{});
    default: return function(float{});
  }
}

}  // namespace raytrain::detail
