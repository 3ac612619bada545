// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <ranges>
#include <span>

#include <raytrain/core/element_type.hpp>

namespace raytrain {

/// Numbers that lie one behind the other and outlive the call: a vector, a `std::array` or a `Buffer` with a name, or a
/// span.
template <class R>
concept ElementArray = std::ranges::contiguous_range<R> && std::ranges::sized_range<R> &&
    std::ranges::borrowed_range<R> && Element<std::ranges::range_value_t<R>>;

/// One whose numbers may be changed.
template <class R>
concept MutableElementArray = ElementArray<R> && std::same_as < std::ranges::range_reference_t<R>,
        std::ranges::range_value_t<R>
& > ;

namespace detail {

template <MutableElementArray R>
[[nodiscard]] auto span_of(R&& values) -> std::span<std::ranges::range_value_t<R>> {
  return {std::ranges::data(values), std::ranges::size(values)};
}

}  // namespace detail
}  // namespace raytrain
