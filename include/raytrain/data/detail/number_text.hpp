// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <string>
#include <type_traits>

#include <raytrain/core/element_type.hpp>

namespace raytrain::detail {

template <Element T>
[[nodiscard]] auto is_nan(T value) noexcept -> bool {
  if constexpr (std::is_integral_v<T>) {
    return false;
  } else if constexpr (std::is_arithmetic_v<T>) {
    return std::isnan(value);
  } else {
    return std::isnan(static_cast<float>(value));
  }
}

/// Appends the fewest digits from which the same bits are read.
template <Element T>
void append_shortest(std::string& text, T value) {
  if constexpr (std::is_arithmetic_v<T>) {
    fmt::format_to(std::back_inserter(text), "{}", value);
  } else {
    append_shortest(text, static_cast<float>(value));
  }
}

}  // namespace raytrain::detail
