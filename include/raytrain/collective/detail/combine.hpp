// SPDX-License-Identifier: Apache-2.0
// How two values become one, for hosts and, through nvcc's --expt-relaxed-constexpr, for GPUs.
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include <raytrain/collective/reduce_op.hpp>
#include <raytrain/core/element_type.hpp>
#include <raytrain/core/float16.hpp>

namespace raytrain::detail {

/// In what values of `T` are combined, on every rank alike; only the result is rounded to `T`.
template <Element T>
using Combined = std::conditional_t<OneOf<T, Float16, BFloat16>, float, T>;

template <Element T>
inline constexpr bool combines_in_itself = std::same_as<Combined<T>, T>;

template <ReduceOp op, Element T>
[[nodiscard, gnu::always_inline]] constexpr auto combine(T sofar, T next) noexcept -> T {
  if constexpr (op == ReduceOp::min || op == ReduceOp::max) {
    bool const better = op == ReduceOp::min ? next < sofar : sofar < next;
    // Only a NaN differs from itself.
    return better || next != next ? next : sofar;
  } else if constexpr (std::integral<T>) {
    // Signed overflow would be undefined, in `int` as well, to which short types are promoted.
    using Wide = std::common_type_t<std::make_unsigned_t<T>, unsigned>;
    auto const first = static_cast<Wide>(sofar);
    auto const second = static_cast<Wide>(next);
    return static_cast<T>(op == ReduceOp::product ? first * second : first + second);
  } else if constexpr (op == ReduceOp::product) {
    return sofar * next;
  } else {
    return sofar + next;
  }
}

/// The last step: what becomes of a value after all ranks' are combined.
template <ReduceOp op, Element T>
[[nodiscard, gnu::always_inline]] constexpr auto conclude(T value, std::uint32_t ranks) noexcept -> T {
  if constexpr (op != ReduceOp::average) {
    return value;
  } else if constexpr (std::floating_point<T>) {
    return value / static_cast<T>(ranks);
  } else if constexpr (std::signed_integral<T>) {
    return static_cast<T>(static_cast<std::int64_t>(value) / static_cast<std::int64_t>(ranks));
  } else {
    return static_cast<T>(static_cast<std::uint64_t>(value) / ranks);
  }
}

}  // namespace raytrain::detail
