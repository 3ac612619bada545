// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include <raytrain/core/bytes.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/launch/detail/handshake.hpp>
#include <raytrain/launch/run_token.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE auto random_nonce() -> Nonce { return random_bytes<sizeof(Nonce)>(); }

RAYTRAIN_INLINE auto HandshakeView::number_at(BytesView bytes, std::size_t place) -> std::uint32_t {
  std::uint32_t number = 0;
  for (std::size_t i = 0; i < 4; ++i) number |= std::to_integer<std::uint32_t>(bytes[place + i]) << (8 * i);
  return number;
}

RAYTRAIN_INLINE auto make_handshake(BytesView secret, HandshakeClaim claim) -> Handshake {
  Handshake handshake{};
  auto const magic = bytes_of(handshake_magic);
  auto at = std::copy(magic.begin(), magic.end(), handshake.begin());
  at = std::copy(secret.begin(), secret.end(), at);
  for (std::uint32_t const value : {claim.version, claim.number}) {
    for (unsigned i = 0; i < 4; ++i) *at++ = static_cast<std::byte>(value >> (8 * i));
  }
  return handshake;
}

RAYTRAIN_INLINE auto HandshakeBegin::proof(RunToken const& token) const -> Handshake {
  HandshakeView const said{hello};
  HandshakeClaim const claim{.number = said.number, .version = said.version};
  return make_handshake(hash(token, Prover::client, claim), claim);
}

RAYTRAIN_INLINE auto HandshakeBegin::is_proof(RunToken const& token, HandshakeView const& shown) const -> bool {
  return shown.magic == handshake_magic &&
         RunToken::same(shown.secret, hash(token, Prover::client, {.number = shown.number, .version = shown.version}));
}

RAYTRAIN_INLINE auto HandshakeBegin::answer(RunToken const& token, HandshakeStatus status) const -> Handshake {
  HandshakeClaim const claim{.number = static_cast<std::uint32_t>(status)};
  return make_handshake(hash(token, Prover::server, claim), claim);
}

RAYTRAIN_INLINE auto HandshakeBegin::is_answer(RunToken const& token, HandshakeView const& shown) const -> bool {
  return shown.magic == handshake_magic &&
         RunToken::same(shown.secret, hash(token, Prover::server, {.number = shown.number, .version = shown.version}));
}

RAYTRAIN_INLINE auto HandshakeBegin::hash(RunToken const& token, Prover prover, HandshakeClaim claim) const -> SipHash {
  std::array<std::byte, 3 * handshake_bytes> all{};
  auto const rest = make_handshake(Nonce{static_cast<std::byte>(prover)}, claim);
  auto at = std::ranges::copy(hello, all.begin()).out;
  at = std::ranges::copy(challenge, at).out;
  std::ranges::copy(rest, at);
  return sip_hash(token.key(), all);
}

RAYTRAIN_INLINE auto make_hello(Nonce const& nonce, Rank rank) -> Handshake {
  return make_handshake(nonce, {.number = rank.value});
}

RAYTRAIN_INLINE auto make_challenge(Nonce const& nonce) -> Handshake { return make_handshake(nonce, {.number = 0}); }

}  // namespace raytrain::detail
