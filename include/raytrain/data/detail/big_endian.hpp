// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstring>
#include <span>

#include <raytrain/core/element_type.hpp>

namespace raytrain::detail {

template <class Word>
void big_endian_to_native(std::span<std::byte> bytes) noexcept {
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(Word)) {
    Word word{};
    std::memcpy(&word, bytes.data() + at, sizeof(Word));
    if constexpr (sizeof(Word) == 2) word = __builtin_bswap16(word);
    if constexpr (sizeof(Word) == 4) word = __builtin_bswap32(word);
    if constexpr (sizeof(Word) == 8) word = __builtin_bswap64(word);
    std::memcpy(bytes.data() + at, &word, sizeof(Word));
  }
}

/// Turns values that were stored with the highest byte first into this machine's.
void big_endian_to_native(std::span<std::byte> bytes, ElementType type) noexcept;

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/data/detail/big_endian-inl.hpp>
#endif
