// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include <raytrain/core/element_type.hpp>

namespace raytrain::detail {

/// Exact, but for integers above 2^53, of which it is the nearest.
template <Element T>
[[nodiscard]] constexpr auto as_double(T value) noexcept -> double {
  if constexpr (std::is_arithmetic_v<T>) {
    return static_cast<double>(value);
  } else {
    return static_cast<double>(static_cast<float>(value));
  }
}

}  // namespace raytrain::detail
