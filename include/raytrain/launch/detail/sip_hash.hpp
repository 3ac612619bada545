// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include <raytrain/core/bytes.hpp>

namespace raytrain::detail {

inline constexpr std::size_t sip_hash_bytes = 16;

using SipHash = std::array<std::byte, sip_hash_bytes>;

/// SipHash-2-4 with a result of 128 bits. Nobody can compute or predict the hash without the key.
///
/// Source: Aumasson and Bernstein, "SipHash: a fast short-input PRF", INDOCRYPT 2012; the wider result is that of the
///         authors' reference implementation.
[[nodiscard]] constexpr auto sip_hash(std::span<std::byte const, 16> key, BytesView data) noexcept -> SipHash {
  auto const word_at = [](BytesView bytes, std::size_t place, std::size_t size) {
    std::uint64_t word = 0;
    for (std::size_t i = 0; i < size; ++i) word |= std::to_integer<std::uint64_t>(bytes[place + i]) << (8 * i);
    return word;
  };
  auto const key_0 = word_at(key, 0, 8);
  auto const key_1 = word_at(key, 8, 8);
  std::uint64_t v0 = key_0 ^ 0x736f6d6570736575U;
  std::uint64_t v1 = key_1 ^ 0x646f72616e646f6dU ^ 0xeeU;
  std::uint64_t v2 = key_0 ^ 0x6c7967656e657261U;
  std::uint64_t v3 = key_1 ^ 0x7465646279746573U;
  auto const mix = [&](int rounds) {
    for (int i = 0; i < rounds; ++i) {
      v0 += v1;
      v2 += v3;
      v1 = std::rotl(v1, 13) ^ v0;
      v3 = std::rotl(v3, 16) ^ v2;
      v0 = std::rotl(v0, 32);
      v2 += v1;
      v0 += v3;
      v1 = std::rotl(v1, 17) ^ v2;
      v3 = std::rotl(v3, 21) ^ v0;
      v2 = std::rotl(v2, 32);
    }
  };
  auto const absorb = [&](std::uint64_t word) {
    v3 ^= word;
    mix(2);
    v0 ^= word;
  };
  auto const whole = data.size() / 8 * 8;
  for (std::size_t place = 0; place < whole; place += 8) absorb(word_at(data, place, 8));
  absorb(word_at(data, whole, data.size() - whole) | static_cast<std::uint64_t>(data.size()) << 56U);

  SipHash hash{};
  auto const give = [&](std::size_t place) {
    mix(4);
    auto const word = v0 ^ v1 ^ v2 ^ v3;
    for (std::size_t i = 0; i < 8; ++i) hash[place + i] = static_cast<std::byte>(word >> (8 * i));
  };
  v2 ^= 0xeeU;
  give(0);
  v1 ^= 0xddU;
  give(8);
  return hash;
}

}  // namespace raytrain::detail
