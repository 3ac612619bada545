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
  static auto const token = RunToken::from_hex("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f");
  return token;
}

/// All that rank 2 of 4 may send.
[[nodiscard]] inline auto good_session() -> Bytes {
  auto const handshake = detail::client_handshake(fuzzed_token(), Rank{2});
  Bytes stream{handshake.begin(), handshake.end()};
  auto const add = [&stream](Bytes const& frame) { stream.insert(stream.end(), frame.begin(), frame.end()); };
  add(detail::heartbeat_frame());
  for (auto const& message : sample_messages()) add(encode(message));
  add(detail::goodbye_frame());
  return stream;
}

[[nodiscard]] inline auto text_of_event(detail::ControlSession::Event const& event) -> std::string {
  if (auto const* const hello = std::get_if<detail::Hello>(&event)) return "hello " + std::to_string(hello->rank.value);
  if (auto const* const refusal = std::get_if<detail::Refusal>(&event)) {
    return (refusal->answer ? "refused and answered: " : "refused: ") + refusal->text;
  }
  if (std::holds_alternative<detail::Heartbeat>(event)) return "heartbeat";
  if (std::holds_alternative<detail::Goodbye>(event)) return "goodbye";
  auto const frame = encode(std::get<Message>(event));
  return "message " + std::string{text_of(frame)};
}

/// The events of a stream that comes in chunks whose sizes `chunk_bytes` tells; an error is the last one.
template <class ChunkBytes>
[[nodiscard]] auto events_of(BytesView stream, ChunkBytes const& chunk_bytes) -> std::vector<std::string> {
  detail::ControlSession session{fuzzed_token(), WorldSize{4}};
  std::vector<std::string> events;
  try {
    for (auto rest = stream; !rest.empty();) {
      auto const chunk = rest.first(std::min<std::size_t>(chunk_bytes(), rest.size()));
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

/// Whether the stream gets beyond the handshake.
inline auto check_session(BytesView stream, std::size_t chunk_bytes) -> bool {
  auto const events = events_of(stream, [chunk_bytes] { return chunk_bytes; });
  require(events == events_of(stream, [&stream] { return stream.size(); }), "chunks do not change what is brought");
  if (events.empty()) return false;
  auto const good = good_session();
  auto const shows_token =
      stream.size() >= detail::handshake_bytes && std::ranges::equal(stream.first(24), BytesView{good}.first(24));
  auto const greeted = events.front().starts_with("hello");
  require(!greeted || shows_token, "nobody is greeted without the token");
  require(!events.front().starts_with("refused and answered") || shows_token, "nobody is answered without the token");
  require(greeted || events.size() == 1, "nothing comes behind a refusal");
  require(greeted || events.front().starts_with("refused"), "nothing comes before the greeting");
  return greeted;
}

}  // namespace raytrain::testing
