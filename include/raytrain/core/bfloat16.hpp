// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>

namespace raytrain {

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
