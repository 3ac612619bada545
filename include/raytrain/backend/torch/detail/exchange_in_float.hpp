// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <utility>

#include <raytrain/backend/torch/gradient_exchange.hpp>

namespace raytrain::detail {

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
    // Of no elements there is no address.
    auto const offset = gradient.numel() == 0 ? 0 : offset_bytes / static_cast<std::ptrdiff_t>(gradient.element_size());
    part.gradient = wide.values.as_strided(gradient.sizes(), gradient.strides(), offset);
  }
  exchange(std::as_const(wide));
  bucket.values.copy_(wide.values);
}

}  // namespace raytrain::detail
