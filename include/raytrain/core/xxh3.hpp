// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <new>
#include <string>

#include <xxhash.h>

#include <raytrain/core/bytes.hpp>

namespace raytrain::detail {

/// The digits that `xxh128sum` prints.
[[nodiscard]] inline auto xxh3_hex(XXH128_hash_t hash) -> std::string {
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

/// XXH3-128 of the whole, as 32 hexadecimal digits.
///
/// Source: the XXH3 algorithm of xxHash 0.8, whose output is stable from that version on.
[[nodiscard]] inline auto xxh3_of(BytesView bytes) -> std::string {
  return xxh3_hex(XXH3_128bits(bytes.data(), bytes.size()));
}

/// XXH3-128 of bytes that arrive in pieces.
class Xxh3 {
 public:
  Xxh3() : state_{XXH3_createState()} {
    if (state_ == nullptr) throw std::bad_alloc{};
    XXH3_128bits_reset(state_.get());
  }

  void update(BytesView bytes) { XXH3_128bits_update(state_.get(), bytes.data(), bytes.size()); }

  [[nodiscard]] auto hex() const -> std::string { return xxh3_hex(XXH3_128bits_digest(state_.get())); }

 private:
  struct Free {
    void operator()(XXH3_state_t* state) const noexcept { XXH3_freeState(state); }
  };
  std::unique_ptr<XXH3_state_t, Free> state_;
};

}  // namespace raytrain::detail
