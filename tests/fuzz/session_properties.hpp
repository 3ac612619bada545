// SPDX-License-Identifier: Apache-2.0
// What must hold for any bytes that a connection brings to a controller.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <raytrain/core/bytes.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/launch/detail/control_session.hpp>
#include <raytrain/launch/detail/handshake.hpp>
#include <raytrain/launch/run_token.hpp>
#include <raytrain/message/codec.hpp>

#include "../message/sample_messages.hpp"
#include "properties.hpp"

namespace raytrain::testing {

[[nodiscard]] inline auto fuzzed_token() -> RunToken const& {
  static auto const token = RunToken::from_hex("000102030405060708090a0b0c0d0e0f");
  return token;
}

/// The same on every connection, which lets a recorded one be played again.
inline constexpr detail::Nonce fuzzed_nonce{std::byte{0xA5}};

/// What a client sends, which knows the token or another one.
[[nodiscard]] inline auto handshake_of(detail::Handshake const& hello, RunToken const& token = fuzzed_token())
    -> Bytes {
  detail::HandshakeBegin const begin{hello, detail::make_challenge(fuzzed_nonce)};
  Bytes stream{hello.begin(), hello.end()};
  auto const proof = begin.proof(token);
  stream.insert(stream.end(), proof.begin(), proof.end());
  return stream;
}

/// All that rank 2 of 1 to 3 may send.
[[nodiscard]] inline auto good_session() -> Bytes {
  auto stream = handshake_of(detail::make_hello(detail::Nonce{std::byte{0x5A}}, Rank{2}));
  auto const add = [&stream](Bytes const& frame) { stream.insert(stream.end(), frame.begin(), frame.end()); };
  add(detail::heartbeat_frame());
  for (auto const& message : worker_messages()) add(encode(message));
  add(detail::goodbye_frame());
  return stream;
}

[[nodiscard]] inline auto text_of_event(detail::ControlSession::Event const& event) -> std::string {
  if (std::holds_alternative<detail::Challenge>(event)) return "challenge";
  if (auto const* const hello = std::get_if<detail::Hello>(&event)) return "hello " + std::to_string(hello->rank.value);
  if (auto const* const refusal = std::get_if<detail::Refusal>(&event)) {
    return (refusal->answer ? "refused and answered: " : "refused: ") + refusal->text;
  }
  if (std::holds_alternative<detail::Heartbeat>(event)) return "heartbeat";
  if (std::holds_alternative<detail::Goodbye>(event)) return "goodbye";
  auto const frame = encode(std::get<WorkerMessage>(event));
  return "message " + std::string{text_of(frame)};
}

/// The events of a stream that comes in chunks whose sizes `chunk_bytes` tells; an error is the last one.
template <class ChunkBytes>
[[nodiscard]] auto events_of(BytesView stream, ChunkBytes const& chunk_bytes) -> std::vector<std::string> {
  detail::ControlSession session{{fuzzed_token(), Rank{1}, WorldSize{4}}, fuzzed_nonce};
  std::vector<std::string> events;
  try {
    for (auto rest = stream; !rest.empty();) {
      auto const chunk = rest.first(std::min<std::size_t>({chunk_bytes(), rest.size(), session.wanted_bytes()}));
      session.feed(chunk);
      while (auto event = session.next()) events.push_back(text_of_event(*event));
      rest = rest.subspan(chunk.size());
    }
  } catch (Error const& error) {
    require(error.code() == Errc::bad_message, "what is refused is refused with the documented code");
    events.push_back("error " + error.happened());
  }
  return events;
}

/// Whether the first bytes of the stream prove the token.
inline auto proves_token(BytesView stream) -> bool {
  if (stream.size() < detail::ControlSession::max_handshake_bytes) return false;
  detail::HandshakeBegin begin{{}, detail::make_challenge(fuzzed_nonce)};
  std::ranges::copy(stream.first(detail::handshake_bytes), begin.hello.begin());
  detail::HandshakeView const proof{stream.subspan(detail::handshake_bytes, detail::handshake_bytes)};
  return begin.is_proof(fuzzed_token(), proof);
}

/// Whether the stream gets beyond the handshake.
inline auto check_session(BytesView stream, std::size_t chunk_bytes) -> bool {
  auto const events = events_of(stream, [chunk_bytes] { return chunk_bytes; });
  require(events == events_of(stream, [&stream] { return stream.size(); }), "chunks do not change what is brought");
  if (events.empty()) return false;
  auto const proved = proves_token(stream);
  auto const greeted = events.size() > 1 && events[1].starts_with("hello");
  for (std::size_t i = 0; i < events.size(); ++i) {
    auto const refused = events[i].starts_with("refused");
    require(!refused || i + 1 == events.size(), "nothing comes behind a refusal");
    require(!events[i].starts_with("refused and answered") || proved, "nobody is answered without the token");
    require(i != 0 || refused || events[i] == "challenge", "first there is a challenge");
    require(i != 1 || refused || greeted, "nothing comes before the greeting");
  }
  require(!greeted || proved, "nobody is greeted without the token");
  return greeted;
}

}  // namespace raytrain::testing
