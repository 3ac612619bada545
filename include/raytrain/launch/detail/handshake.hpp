// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <raytrain/core/bytes.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/launch/run_token.hpp>
#include <raytrain/message/codec.hpp>

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

// A connection begins with a handshake of four parts of one form: magic, 16 bytes, protocol version, a number.
//
//   client: hello      a nonce, its rank
//   server: challenge  a nonce, 0
//   client: proof      a hash of all before, its rank
//   server: answer     a hash of all before, a status
//
// The run's token is the key of both hashes, so that each end knows that the other has it, and who listens learns
// nothing with which to connect. The form is the same in all versions from 2 on, so that ends of different versions
// can tell each other of it.
inline constexpr std::size_t handshake_bytes = 32;
inline constexpr std::string_view handshake_magic = "raytrain";

using Handshake = std::array<std::byte, handshake_bytes>;

/// Different for each connection, so that nothing that was heard on one serves on another.
using Nonce = std::array<std::byte, 16>;
static_assert(sizeof(Nonce) == sizeof(SipHash));

[[nodiscard]] auto random_nonce() -> Nonce;

/// A server's answer to a client that has proved that it knows the token; nobody else gets one.
enum class HandshakeStatus : std::uint32_t { accepted, other_version, no_such_rank, rank_taken };

/// One part of a handshake.
struct HandshakeView {
  explicit HandshakeView(BytesView bytes)
      : magic{text_of(bytes.first(8))},
        secret{bytes.subspan(8, sizeof(Nonce))},
        version{number_at(bytes, 24)},
        number{number_at(bytes, 28)} {}

  std::string_view magic;
  BytesView secret;  ///< A nonce or a hash.
  std::uint32_t version;
  std::uint32_t number;  ///< A client's rank, or a server's status.

 private:
  static auto number_at(BytesView bytes, std::size_t place) -> std::uint32_t;
};

/// What an end says of itself beside a nonce or a proof.
struct HandshakeClaim {
  std::uint32_t number;  ///< As in `HandshakeView`.
  std::uint32_t version = protocol_version;
};

[[nodiscard]] auto make_handshake(BytesView secret, HandshakeClaim claim) -> Handshake;

/// What both ends know of a connection before one of them proves anything.
struct HandshakeBegin {
  Handshake hello{};
  Handshake challenge{};

  /// The client's proof, for whatever rank and version its hello names.
  [[nodiscard]] auto proof(RunToken const& token) const -> Handshake;
  [[nodiscard]] auto is_proof(RunToken const& token, HandshakeView const& shown) const -> bool;

  [[nodiscard]] auto answer(RunToken const& token, HandshakeStatus status) const -> Handshake;
  [[nodiscard]] auto is_answer(RunToken const& token, HandshakeView const& shown) const -> bool;

 private:
  /// Part of what is hashed, so that nobody passes off an end's own proof as the other's.
  enum class Prover : std::uint32_t { client = 1, server };

  [[nodiscard]] auto hash(RunToken const& token, Prover prover, HandshakeClaim claim) const -> SipHash;
};

[[nodiscard]] auto make_hello(Nonce const& nonce, Rank rank) -> Handshake;

[[nodiscard]] auto make_challenge(Nonce const& nonce) -> Handshake;

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/launch/detail/handshake-inl.hpp>
#endif
