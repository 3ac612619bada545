// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <utility>

#include <raytrain/backend/torch/gradient_exchange.hpp>
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

/// Calls `exchange` with a bucket of the same gradients in float, for one of 16 bits, to which the results are rounded.
template <class F>
void exchange_in_float(GradientBucket const& bucket, F const& exchange) {
  torch::NoGradGuard const no_grad;
  auto wide = bucket;
  wide.values = bucket.values.to(at::kFloat);
  auto const* const begin = static_cast<std::byte const*>(bucket.values.data_ptr());
  for (auto& part : wide.parts) {
    auto const& gradient = std::as_const(part.gradient);
    auto const offset_bytes = static_cast<std::byte const*>(gradient.data_ptr()) - begin;
    auto const offset = offset_bytes / static_cast<std::ptrdiff_t>(gradient.element_size());
    part.gradient = wide.values.as_strided(gradient.sizes(), gradient.strides(), offset);
  }
  exchange(std::as_const(wide));
  bucket.values.copy_(wide.values);
}

}  // namespace raytrain::detail
