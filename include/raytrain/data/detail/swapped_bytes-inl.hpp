// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include <raytrain/core/element_type.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/data/detail/swapped_bytes.hpp>

namespace raytrain::detail {

template <class Word>
void swap_bytes_of(std::span<std::byte> bytes) noexcept {
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(Word)) {
    Word word{};
    std::memcpy(&word, bytes.data() + at, sizeof(Word));
    if constexpr (sizeof(Word) == 2) word = __builtin_bswap16(word);
    if constexpr (sizeof(Word) == 4) word = __builtin_bswap32(word);
    if constexpr (sizeof(Word) == 8) word = __builtin_bswap64(word);
    std::memcpy(bytes.data() + at, &word, sizeof(Word));
  }
}

RAYTRAIN_INLINE void swap_bytes(std::span<std::byte> bytes, ElementType type) noexcept {
  switch (size_bytes(type)) {
    case 2: return swap_bytes_of<std::uint16_t>(bytes);
    case 4: return swap_bytes_of<std::uint32_t>(bytes);
    case 8: return swap_bytes_of<std::uint64_t>(bytes);
    default: return;
  }
}

}  // namespace raytrain::detail
