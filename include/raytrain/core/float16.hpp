// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace raytrain {

/// A number in IEEE 754's binary16: 5 bits of exponent, 11 significant ones, up to 65504. It stores; `float` computes.
class Float16 {
 public:
  /// Leaves the value indeterminate, as a `float` does; `Float16{}` is 0.
  constexpr Float16() noexcept = default;

  /// The nearest one, of two equally near the even one; from 65520 on infinity. A NaN stays a NaN.
  explicit constexpr Float16(float value) noexcept {
    // Nothing depends on a condition that g++ could branch on, since it then makes no vector instructions of a loop.
    auto const word = std::bit_cast<std::uint32_t>(value);
    auto const magnitude = static_cast<std::int32_t>(word & 0x7fff'ffffU);
    auto const normal_mask = -static_cast<std::int32_t>(magnitude >= smallest_normal);
    auto const small = magnitude & ~normal_mask;
    // Among numbers around 0.5 a float's last bit is worth 2^-24, as a subnormal's is here: the addition rounds.
    auto const subnormal = std::bit_cast<std::int32_t>(std::bit_cast<float>(small) + 0.5F) - half;
    auto const rounded = ((word & 0x7fff'ffffU) + 0xfffU + ((word >> 13U) & 1U)) >> 13U;
    auto const normal = std::min(static_cast<std::int32_t>(rounded) - (exponent_offset >> 13), infinity);
    auto const not_a_number = infinity | 0x200 | ((magnitude >> 13) & 0x3ff);
    auto const other = magnitude <= float_infinity ? normal : not_a_number;
    auto const result = subnormal | (other & normal_mask);
    bits_ = static_cast<std::uint16_t>(static_cast<std::uint32_t>(result) | ((word >> 16U) & 0x8000U));
  }

  /// Exact.
  explicit constexpr operator float() const noexcept {
    auto const magnitude = static_cast<std::int32_t>(bits_ & 0x7fffU);
    auto const shifted = (magnitude << 13) + exponent_offset + (magnitude < infinity ? 0 : exponent_offset);
    // A subnormal lacks the leading 1: it is read with one, which is subtracted.
    auto const leading = magnitude < 0x400 ? smallest_normal : 0;
    auto const exponent = magnitude < 0x400 ? 1 << 23 : 0;
    auto const result = std::bit_cast<float>(shifted + exponent) - std::bit_cast<float>(leading);
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(result) | (bits_ & 0x8000U) << 16U);
  }

  [[nodiscard]] static constexpr auto from_bits(std::uint16_t bits) noexcept -> Float16 {
    Float16 value;
    value.bits_ = bits;
    return value;
  }
  [[nodiscard]] constexpr auto bits() const noexcept -> std::uint16_t { return bits_; }

 private:
  static constexpr std::int32_t infinity = 0x7c00;
  static constexpr std::int32_t half = 0x3f00'0000;  ///< 0.5, as a float.
  static constexpr std::int32_t float_infinity = 0x7f80'0000;
  static constexpr std::int32_t smallest_normal = 0x3880'0000;       ///< 2^-14, as a float.
  static constexpr std::int32_t exponent_offset = (127 - 15) << 23;  ///< Between a float's exponent and this one's.

  std::uint16_t bits_;
};

static_assert(sizeof(Float16) == 2);

/// The upper half of a `float`: its whole range with 8 significant bits. It stores; `float` computes.
class BFloat16 {
 public:
  /// Leaves the value indeterminate, as a `float` does; `BFloat16{}` is 0.
  constexpr BFloat16() noexcept = default;

  /// The nearest one, of two equally near the even one; above the largest infinity. A NaN stays a NaN.
  explicit constexpr BFloat16(float value) noexcept {
    // Both cases are computed and one is selected: without branches a loop becomes vector instructions.
    auto const word = std::bit_cast<std::uint32_t>(value);
    auto const rounded = (word + 0x7fffU + ((word >> 16U) & 1U)) >> 16U;
    // The bits of a NaN's fraction may all lie in the lower half, which is cut off.
    auto const not_a_number = (word >> 16U) | 0x40U;
    bool const is_number = static_cast<std::int32_t>(word & 0x7fff'ffffU) <= 0x7f80'0000;
    bits_ = static_cast<std::uint16_t>(is_number ? rounded : not_a_number);
  }

  /// Exact.
  explicit constexpr operator float() const noexcept { return std::bit_cast<float>(std::uint32_t{bits_} << 16U); }

  [[nodiscard]] static constexpr auto from_bits(std::uint16_t bits) noexcept -> BFloat16 {
    BFloat16 value;
    value.bits_ = bits;
    return value;
  }
  [[nodiscard]] constexpr auto bits() const noexcept -> std::uint16_t { return bits_; }

 private:
  std::uint16_t bits_;
};

static_assert(sizeof(BFloat16) == 2);

}  // namespace raytrain
