// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <xxhash.h>

#include <raytrain/core/bytes.hpp>

namespace raytrain::detail {

/// The digits that `xxh128sum` prints.
[[nodiscard]] auto xxh3_hex(XXH128_hash_t hash) -> std::string;

/// Whether a text is what `xxh3_hex` gives: 32 hexadecimal digits, in small letters.
[[nodiscard]] auto is_xxh3_hex(std::string_view text) noexcept -> bool;

/// XXH3-128 of the whole, as 32 hexadecimal digits.
///
/// Source: the XXH3 algorithm of xxHash 0.8, whose output is stable from that version on.
[[nodiscard]] auto xxh3_of(BytesView bytes) -> std::string;

/// XXH3-64 of the whole, with the seed 0: the number that Python's `xxhash.xxh3_64_intdigest` gives.
[[nodiscard]] auto xxh3_64_of(BytesView bytes) noexcept -> std::uint64_t;

/// XXH3-128 of bytes that arrive in pieces.
class Xxh3 {
 public:
  Xxh3();

  void update(BytesView bytes) { XXH3_128bits_update(state_.get(), bytes.data(), bytes.size()); }

  [[nodiscard]] auto hex() const -> std::string { return xxh3_hex(XXH3_128bits_digest(state_.get())); }

 private:
  struct Free {
    void operator()(XXH3_state_t* state) const noexcept { XXH3_freeState(state); }
  };
  std::unique_ptr<XXH3_state_t, Free> state_;
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/core/xxh3-inl.hpp>
#endif
