// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

#include <raytrain/core/float16.hpp>

namespace raytrain {

namespace detail {
template <class T, class... Ts>
concept OneOf = (std::same_as<T, Ts> || ...);
}  // namespace detail

/// A number that a dataset's column can hold and a collective can carry: not `bool`, not a character.
template <class T>
concept Element = detail::OneOf<T, float, double, signed char, short, int, long, long long, unsigned char,
                                unsigned short, unsigned, unsigned long, unsigned long long, Float16, BFloat16>;

/// An `Element` by size and kind: `long` and `long long` are the same where they are of one size. Its numbers may be
/// stored, so new ones come last.
enum class ElementType : std::uint8_t {
  float32,
  float64,
  int8,
  int16,
  int32,
  int64,
  uint8,
  uint16,
  uint32,
  uint64,
  float16,
  bfloat16,
};

template <Element T>
inline constexpr ElementType element_type = [] {
  constexpr ElementType of_size[] = {ElementType::int8, ElementType::int16, ElementType::int32, ElementType::int64};
  constexpr ElementType unsigned_of_size[] = {ElementType::uint8, ElementType::uint16, ElementType::uint32,
                                              ElementType::uint64};
  constexpr std::size_t log2_size = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
  if constexpr (std::same_as<T, float>) {
    return ElementType::float32;
  } else if constexpr (std::same_as<T, double>) {
    return ElementType::float64;
  } else if constexpr (std::same_as<T, Float16>) {
    return ElementType::float16;
  } else if constexpr (std::same_as<T, BFloat16>) {
    return ElementType::bfloat16;
  } else if constexpr (std::signed_integral<T>) {
    return of_size[log2_size];
  } else {
    return unsigned_of_size[log2_size];
  }
}();

[[nodiscard]] constexpr auto to_string(ElementType type) noexcept -> std::string_view {
  switch (type) {
    case ElementType::float32: return "float32";
    case ElementType::float64: return "float64";
    case ElementType::int8: return "int8";
    case ElementType::int16: return "int16";
    case ElementType::int32: return "int32";
    case ElementType::int64: return "int64";
    case ElementType::uint8: return "uint8";
    case ElementType::uint16: return "uint16";
    case ElementType::uint32: return "uint32";
    case ElementType::uint64: return "uint64";
    case ElementType::float16: return "float16";
    case ElementType::bfloat16: return "bfloat16";
  }
  return "unknown";
}

[[nodiscard]] constexpr auto size_bytes(ElementType type) noexcept -> std::size_t {
  switch (type) {
    case ElementType::int8:
    case ElementType::uint8: return 1;
    case ElementType::int16:
    case ElementType::uint16:
    case ElementType::float16:
    case ElementType::bfloat16: return 2;
    case ElementType::float32:
    case ElementType::int32:
    case ElementType::uint32: return 4;
    case ElementType::float64:
    case ElementType::int64:
    case ElementType::uint64: return 8;
  }
  return 0;
}

/// Calls `work` with a null pointer of the type that is known at run time only.
template <class Work>
void with_element_type(ElementType type, Work const& work) {
  switch (type) {
    case ElementType::float32: return work(static_cast<float*>(nullptr));
    case ElementType::float64: return work(static_cast<double*>(nullptr));
    case ElementType::int8: return work(static_cast<std::int8_t*>(nullptr));
    case ElementType::int16: return work(static_cast<std::int16_t*>(nullptr));
    case ElementType::int32: return work(static_cast<std::int32_t*>(nullptr));
    case ElementType::int64: return work(static_cast<std::int64_t*>(nullptr));
    case ElementType::uint8: return work(static_cast<std::uint8_t*>(nullptr));
    case ElementType::uint16: return work(static_cast<std::uint16_t*>(nullptr));
    case ElementType::uint32: return work(static_cast<std::uint32_t*>(nullptr));
    case ElementType::uint64: return work(static_cast<std::uint64_t*>(nullptr));
    case ElementType::float16: return work(static_cast<Float16*>(nullptr));
    case ElementType::bfloat16: return work(static_cast<BFloat16*>(nullptr));
  }
}

namespace detail {
/// No type for a temporary that holds its numbers itself, which would be gone before they are used.
template <class R>
using ArrayIterator = decltype(std::ranges::begin(std::declval<R>()));
}  // namespace detail

/// The type of an array's numbers.
template <class R>
using ArrayElement = std::iter_value_t<detail::ArrayIterator<R>>;

/// Numbers that lie one behind the other and outlive the call: a vector, a `std::array` or a `Buffer` with a name, or a
/// span.
template <class R>
concept ElementArray = std::contiguous_iterator<detail::ArrayIterator<R>> && Element<ArrayElement<R>> &&
    requires(R&& array) {
  std::ranges::size(array);
};

/// One whose numbers may be changed.
template <class R>
concept MutableElementArray = ElementArray<R> &&
    std::same_as<std::iter_reference_t<detail::ArrayIterator<R>>, std::add_lvalue_reference_t<ArrayElement<R>>>;

namespace detail {

/// Exact, but for integers above 2^53, of which it is the nearest.
template <Element T>
[[nodiscard]] constexpr auto as_double(T value) noexcept -> double {
  if constexpr (std::is_arithmetic_v<T>) {
    return static_cast<double>(value);
  } else {
    return static_cast<double>(static_cast<float>(value));
  }
}

template <MutableElementArray R>
[[nodiscard]] auto span_of(R&& values) -> std::span<ArrayElement<R>> {
  return {std::ranges::data(values), std::ranges::size(values)};
}

}  // namespace detail
}  // namespace raytrain
