// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include <raytrain/core/element_type.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/data/detail/big_endian.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE void big_endian_to_native(std::span<std::byte> bytes, ElementType type) noexcept {
  if constexpr (std::endian::native == std::endian::big) return;
  switch (size_bytes(type)) {
    case 2: return big_endian_to_native<std::uint16_t>(bytes);
    case 4: return big_endian_to_native<std::uint32_t>(bytes);
    case 8: return big_endian_to_native<std::uint64_t>(bytes);
    default: return;
  }
}

}  // namespace raytrain::detail
