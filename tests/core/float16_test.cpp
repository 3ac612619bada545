// SPDX-License-Identifier: Apache-2.0
#include <raytrain/core/float16.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <type_traits>

#include <doctest/doctest.h>

#include <raytrain/core/element_type.hpp>
#include <raytrain/core/float16.hpp>
#include <raytrain/testing/random_seed.hpp>

using raytrain::BFloat16;
using raytrain::ElementType;
using raytrain::Float16;

static_assert(std::is_trivial_v<Float16> && std::is_trivial_v<BFloat16>);
static_assert(Float16{}.bits() == 0 && BFloat16{}.bits() == 0);
static_assert(!std::is_convertible_v<float, Float16> && !std::is_convertible_v<Float16, float>);
static_assert(!std::is_convertible_v<float, BFloat16> && !std::is_convertible_v<BFloat16, float>);
static_assert(raytrain::Element<Float16> && raytrain::Element<BFloat16>);
static_assert(raytrain::element_type<Float16> == ElementType::float16);
static_assert(raytrain::element_type<BFloat16> == ElementType::bfloat16);
static_assert(Float16{1.5F}.bits() == 0x3e00 && static_cast<float>(Float16::from_bits(0x0001)) == 0x1p-24F);
static_assert(BFloat16{1.5F}.bits() == 0x3fc0 && static_cast<float>(BFloat16::from_bits(0x0001)) == 0x1p-133F);

namespace {

template <class T>
struct Format;
template <>
struct Format<Float16> {
  static constexpr int exponent_bits = 5;
};
template <>
struct Format<BFloat16> {
  static constexpr int exponent_bits = 8;
};

/// The two conversions by the definition of the format, in double, which holds every number of it exactly.
template <class T>
struct Oracle {
  static constexpr int fraction_bits = 15 - Format<T>::exponent_bits;
  static constexpr int bias = (1 << (Format<T>::exponent_bits - 1)) - 1;
  static constexpr int fractions = 1 << fraction_bits;
  static constexpr int top_exponent = 2 * bias + 1;

  static auto number(std::uint16_t bits) -> double {
    int const exponent = (bits & 0x7fff) / fractions;
    int const fraction = bits % fractions;
    double result = std::ldexp(fractions + fraction, exponent - bias - fraction_bits);
    if (exponent == 0) result = std::ldexp(fraction, 1 - bias - fraction_bits);
    if (exponent == top_exponent) {
      result = fraction == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
    }
    return (bits & 0x8000) != 0 ? -result : result;
  }

  /// `value` is not a NaN.
  static auto nearest(double value) -> std::uint16_t {
    int const sign = std::signbit(value) ? 0x8000 : 0;
    auto const infinity = static_cast<std::uint16_t>(sign + top_exponent * fractions);
    if (std::isinf(value)) return infinity;
    int const exponent = value == 0 ? 1 - bias : std::max(std::ilogb(value), 1 - bias);
    // In units of the last place, of which the even one wins a tie; a normal number has `fractions` or more of them.
    auto const units = static_cast<int>(std::nearbyint(std::ldexp(std::abs(value), fraction_bits - exponent)));
    int const bits = units + (exponent + bias - 1) * fractions;
    return bits >= top_exponent * fractions ? infinity : static_cast<std::uint16_t>(sign + bits);
  }
};

template <class T>
auto is_nan(T value) -> bool {
  return (value.bits() & 0x7fff) > Oracle<T>::top_exponent * Oracle<T>::fractions;
}

/// Whether it becomes what the oracle says; a NaN another NaN of its sign.
template <class T>
auto converts_right(float value) -> bool {
  T const result{value};
  if (std::isnan(value)) return is_nan(result) && (result.bits() >= 0x8000) == std::signbit(value);
  return result.bits() == Oracle<T>::nearest(double{value});
}

}  // namespace

TEST_CASE_TEMPLATE("each of the 65536 patterns of 16 bits is the number that its format defines, and comes back", T,
                   Float16, BFloat16) {
  int wrong = 0;
  for (std::uint32_t pattern = 0; pattern < 0x10000; ++pattern) {
    auto const bits = static_cast<std::uint16_t>(pattern);
    auto const number = Oracle<T>::number(bits);
    auto const value = static_cast<float>(T::from_bits(bits));
    if (std::isnan(number)) {
      wrong += std::isnan(value) && std::signbit(value) == (bits >= 0x8000) && is_nan(T{value}) ? 0 : 1;
    } else {
      wrong += double{value} == number && std::signbit(value) == std::signbit(number) ? 0 : 1;
      wrong += T{value}.bits() == bits ? 0 : 1;
    }
    wrong += T::from_bits(bits).bits() == bits ? 0 : 1;
  }
  CHECK(wrong == 0);
}

TEST_CASE_TEMPLATE("a float half way between two neighbours becomes the even one, and the nearer one on either side", T,
                   Float16, BFloat16) {
  int wrong = 0;
  for (std::uint16_t const sign : {0x0000, 0x8000}) {
    // Up to the largest number, whose next would be where infinity is.
    for (int pattern = 0; pattern < Oracle<T>::top_exponent * Oracle<T>::fractions; ++pattern) {
      auto const lower = static_cast<std::uint16_t>(sign + pattern);
      auto const upper = static_cast<std::uint16_t>(lower + 1);
      auto const number = Oracle<T>::number(lower);
      auto const before =
          pattern == 0 ? -Oracle<T>::number(upper) : Oracle<T>::number(static_cast<std::uint16_t>(lower - 1));
      auto const next = std::isinf(Oracle<T>::number(upper)) ? 2 * number - before : Oracle<T>::number(upper);
      auto const middle = static_cast<float>((number + next) / 2);
      REQUIRE(double{middle} == (number + next) / 2);
      wrong += T{middle}.bits() == (pattern % 2 == 0 ? lower : upper) ? 0 : 1;
      wrong += T{std::nextafter(middle, 0.0F)}.bits() == lower ? 0 : 1;
      wrong += T{std::nextafter(middle, 2 * middle)}.bits() == upper ? 0 : 1;
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE_TEMPLATE("any float becomes the nearest number, an infinity itself and a NaN a NaN", T, Float16, BFloat16) {
  std::mt19937_64 random{raytrain::testing::random_seed()};
  int wrong = 0;
  for (std::uint32_t high = 0; high < 0x10000; ++high) {
    for (std::uint32_t const low :
         {0x0000U, 0x0001U, 0x7fffU, 0x8000U, 0x8001U, 0xffffU, static_cast<std::uint32_t>(random() & 0xffffU)}) {
      wrong += converts_right<T>(std::bit_cast<float>(high << 16U | low)) ? 0 : 1;
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("the two types of 16 bits are element types of 2 bytes, after those that may have been stored") {
  CHECK(to_string(ElementType::float16) == "float16");
  CHECK(to_string(ElementType::bfloat16) == "bfloat16");
  CHECK(size_bytes(ElementType::float16) == 2);
  CHECK(size_bytes(ElementType::bfloat16) == 2);
  CHECK(static_cast<int>(ElementType::uint64) == 9);
  CHECK(static_cast<int>(ElementType::float16) == 10);
  CHECK(static_cast<int>(ElementType::bfloat16) == 11);
}
