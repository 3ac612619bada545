// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <string_view>
#include <type_traits>

#include <raytrain/core/element_type.hpp>

namespace raytrain {

constexpr auto enum_names(ElementType /*any*/) noexcept {
  std::array<std::string_view, static_cast<std::size_t>(ElementType::bfloat16) + 1> names{};
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = to_string(static_cast<ElementType>(i));
  return names;
}

}  // namespace raytrain

namespace raytrain::detail {

/// An enumeration whose values from 0 on have names, by which JSON has them: `enum_names(E)`, an array of
/// `std::string_view`, is found by argument-dependent lookup.
template <class E>
concept NamedEnum = std::is_enum_v<E> && requires(E value, std::size_t i) {
  { enum_names(value)[i] } -> std::convertible_to<std::string_view>;
};

template <NamedEnum E>
[[nodiscard]] constexpr auto name_of(E value) -> std::string_view {
  return enum_names(value).at(static_cast<std::size_t>(value));
}

}  // namespace raytrain::detail
