// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <raytrain/core/bytes.hpp>
#include <raytrain/core/rank.hpp>
#include <raytrain/launch/detail/sip_hash.hpp>
#include <raytrain/launch/run_token.hpp>
#include <raytrain/message/codec.hpp>

namespace raytrain::detail {

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

[[nodiscard]] auto make_handshake(BytesView secret, std::uint32_t number, std::uint32_t version = protocol_version)
    -> Handshake;

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

  [[nodiscard]] auto hash(RunToken const& token, Prover prover, std::uint32_t version, std::uint32_t number) const
      -> SipHash;
};

[[nodiscard]] auto make_hello(Nonce const& nonce, Rank rank) -> Handshake;

[[nodiscard]] auto make_challenge(Nonce const& nonce) -> Handshake;

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/launch/detail/handshake-inl.hpp>
#endif
