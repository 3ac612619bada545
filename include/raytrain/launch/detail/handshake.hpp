// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <raytrain/core/bytes.hpp>
#include <raytrain/core/rank.hpp>
#include <raytrain/launch/run_token.hpp>
#include <raytrain/message/codec.hpp>

namespace raytrain::detail {

/// What both ends of a connection send first: magic, half a token, protocol version, a number. Its form is the same in
/// all versions, so that ends of different versions can tell each other of it.
inline constexpr std::size_t handshake_bytes = 32;
inline constexpr std::string_view handshake_magic = "raytrain";

using Handshake = std::array<std::byte, handshake_bytes>;

/// A server's answer to a client that knows the token; nobody else gets one.
enum class HandshakeStatus : std::uint32_t { accepted, other_version, no_such_rank, rank_taken };

/// The parts of `handshake_bytes` bytes.
struct HandshakeView {
  explicit HandshakeView(BytesView bytes)
      : magic{text_of(bytes.first(8))},
        proof{bytes.subspan(8, RunToken::size_bytes / 2)},
        version{number_at(bytes, 24)},
        number{number_at(bytes, 28)} {}

  std::string_view magic;
  BytesView proof;
  std::uint32_t version;
  std::uint32_t number;  ///< A client's rank, or a server's status.

 private:
  static auto number_at(BytesView bytes, std::size_t place) -> std::uint32_t {
    std::uint32_t number = 0;
    for (std::size_t i = 0; i < 4; ++i) number |= std::to_integer<std::uint32_t>(bytes[place + i]) << (8 * i);
    return number;
  }
};

inline auto make_handshake(BytesView proof, std::uint32_t number) -> Handshake {
  Handshake handshake{};
  auto const magic = bytes_of(handshake_magic);
  auto at = std::copy(magic.begin(), magic.end(), handshake.begin());
  at = std::copy(proof.begin(), proof.end(), at);
  for (std::uint32_t const value : {std::uint32_t{protocol_version}, number}) {
    for (unsigned i = 0; i < 4; ++i) *at++ = static_cast<std::byte>(value >> (8 * i));
  }
  return handshake;
}

[[nodiscard]] inline auto client_handshake(RunToken const& token, Rank rank) -> Handshake {
  return make_handshake(token.client_half(), rank.value);
}

[[nodiscard]] inline auto server_handshake(RunToken const& token, HandshakeStatus status) -> Handshake {
  return make_handshake(token.server_half(), static_cast<std::uint32_t>(status));
}

}  // namespace raytrain::detail
