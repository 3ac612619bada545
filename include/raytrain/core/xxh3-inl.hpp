// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <xxhash.h>

#include <cstdint>
#include <new>
#include <string>
#include <string_view>

#include <raytrain/core/bytes.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/xxh3.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE auto xxh3_hex(XXH128_hash_t hash) -> std::string {
  constexpr auto digits = "0123456789abcdef";
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, hash);
  std::string text;
  for (auto const byte : canonical.digest) {
    text += digits[byte >> 4U];
    text += digits[byte & 15U];
  }
  return text;
}

RAYTRAIN_INLINE auto is_xxh3_hex(std::string_view text) noexcept -> bool {
  return text.size() == 2 * sizeof(XXH128_canonical_t) &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

RAYTRAIN_INLINE auto xxh3_of(BytesView bytes) -> std::string {
  return xxh3_hex(XXH3_128bits(bytes.data(), bytes.size()));
}

RAYTRAIN_INLINE auto xxh3_64_of(BytesView bytes) noexcept -> std::uint64_t {
  return XXH3_64bits(bytes.data(), bytes.size());
}

RAYTRAIN_INLINE Xxh3::Xxh3() : state_{XXH3_createState()} {
  if (state_ == nullptr) throw std::bad_alloc{};
  XXH3_128bits_reset(state_.get());
}

}  // namespace raytrain::detail
