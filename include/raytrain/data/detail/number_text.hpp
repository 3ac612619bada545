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

/// Appends the fewest digits from which the same bits are read; of a float that is too large for fractions all of its
/// digits below 1e16, since zeros in their place would be another whole number.
template <Element T>
void append_shortest(std::string& text, T value) {
  if constexpr (std::is_same_v<T, float>) {
    auto const is_whole = std::abs(value) >= 16'777'216.0F && std::abs(value) < 1e16F;
    if (is_whole) {
      fmt::format_to(std::back_inserter(text), "{:.0f}", value);
    } else {
      fmt::format_to(std::back_inserter(text), "{}", value);
    }
  } else if constexpr (std::is_arithmetic_v<T>) {
    fmt::format_to(std::back_inserter(text), "{}", value);
  } else {
    append_shortest(text, static_cast<float>(value));
  }
}

}  // namespace raytrain::detail
