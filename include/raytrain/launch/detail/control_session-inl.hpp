// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include <raytrain/core/bytes.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/launch/detail/control_frames.hpp>
#include <raytrain/launch/detail/control_session.hpp>
#include <raytrain/launch/detail/handshake.hpp>
#include <raytrain/message/codec.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE ControlSession::ControlSession(Expected expected, Nonce const& nonce) : expected_{expected} {
  begin_.challenge = make_challenge(nonce);
}

RAYTRAIN_INLINE auto ControlSession::wanted_bytes() const noexcept -> std::size_t {
  auto const begins = state_ == State::waiting || state_ == State::challenged;
  return begins ? wanted_handshake() - handshake_.size() : read_bytes;
}

RAYTRAIN_INLINE void ControlSession::feed(BytesView chunk) {
  if (state_ == State::ended) return;
  assert(chunk.size() <= wanted_bytes());
  if (state_ == State::greeted) return frames_.feed(chunk);
  handshake_.insert(handshake_.end(), chunk.begin(), chunk.end());
}

RAYTRAIN_INLINE auto ControlSession::next() -> std::optional<Event> {
  if (state_ == State::ended) return std::nullopt;
  if (state_ != State::greeted) return next_of_handshake();
  auto item = frames_.next();
  if (!item) return std::nullopt;
  if (std::holds_alternative<Goodbye>(*item)) state_ = State::ended;
  return std::visit([](auto& it) { return Event{std::move(it)}; }, *item);
}

RAYTRAIN_INLINE auto ControlSession::answer(HandshakeStatus status) const -> Handshake {
  return begin_.answer(expected_.token, status);
}

RAYTRAIN_INLINE auto ControlSession::wanted_handshake() const noexcept -> std::size_t {
  return state_ == State::waiting ? handshake_bytes : max_handshake_bytes;
}

RAYTRAIN_INLINE auto ControlSession::next_of_handshake() -> std::optional<Event> {
  auto const part = BytesView{handshake_}.subspan(wanted_handshake() - handshake_bytes);
  auto const text = text_of(part);
  if (!handshake_magic.starts_with(text.substr(0, handshake_magic.size()))) {
    return refuse(std::nullopt, "sent something else than raytrain's handshake");
  }
  if (part.size() < handshake_bytes) return std::nullopt;
  if (state_ == State::challenged) return judge(HandshakeView{part});
  std::ranges::copy(part, begin_.hello.begin());
  state_ = State::challenged;
  return Challenge{begin_.challenge};
}

RAYTRAIN_INLINE auto ControlSession::judge(HandshakeView const& shown) -> Event {
  // Before all else: who does not know the token has nothing looked at and learns nothing.
  if (!begin_.is_proof(expected_.token, shown)) return refuse(std::nullopt, "does not know the run's token");
  if (shown.version != protocol_version) {
    return refuse(HandshakeStatus::other_version, "has protocol version " + std::to_string(shown.version) +
                                                      ", and this side has " + std::to_string(protocol_version));
  }
  if (shown.number < expected_.first.value || shown.number >= expected_.world.value) {
    return refuse(HandshakeStatus::no_such_rank, "says that it is rank " + std::to_string(shown.number) +
                                                     ", and ranks " + std::to_string(expected_.first.value) + " to " +
                                                     std::to_string(expected_.world.value - 1) + " are expected");
  }
  state_ = State::greeted;
  return Hello{Rank{shown.number}};
}

RAYTRAIN_INLINE auto ControlSession::refuse(std::optional<HandshakeStatus> answer, std::string text) -> Event {
  state_ = State::ended;
  return Refusal{answer, std::move(text)};
}

}  // namespace raytrain::detail
