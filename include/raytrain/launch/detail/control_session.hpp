// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <variant>

#include <raytrain/core/bytes.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/launch/detail/control_frames.hpp>
#include <raytrain/launch/detail/handshake.hpp>
#include <raytrain/launch/run_token.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain::detail {

/// Somebody has said hello, and is to be sent this.
struct Challenge {
  Handshake handshake{};
};

/// A client has proved that it knows the token, and says which rank it is.
struct Hello {
  Rank rank{};
};

/// What has connected is no rank of this run. The last event.
struct Refusal {
  std::optional<HandshakeStatus> answer;  ///< Only for who knows the token.
  std::string text;                       ///< "sent ...", for people.
};

/// The server's side of one connection without the socket: bytes in, events out.
///
/// Before the token is proved it holds at most `max_handshake_bytes` bytes and looks at nothing else.
class ControlSession {
 public:
  using Event = std::variant<Challenge, Hello, Refusal, Heartbeat, Goodbye, WorkerMessage>;

  /// A hello and a proof.
  static constexpr std::size_t max_handshake_bytes = 2 * handshake_bytes;

  /// Whom a server expects.
  struct Expected {
    RunToken const& token;
    Rank first{};  ///< The ranks from here on.
    WorldSize world{1};
  };

  ControlSession(Expected expected, Nonce const& nonce);

  /// The most bytes that `feed` takes.
  [[nodiscard]] auto wanted_bytes() const noexcept -> std::size_t;

  /// What has come of a handshake that is not complete.
  [[nodiscard]] auto received_bytes() const noexcept -> std::size_t { return handshake_.size(); }

  /// Whether a whole hello, or something else in its place, has come.
  [[nodiscard]] auto has_challenged() const noexcept -> bool { return state_ != State::waiting; }

  /// Takes in the stream's next bytes. Call `next` until it has nothing left before feeding more.
  ///
  /// Errors: `bad_message` for a length that no frame may have.
  void feed(BytesView chunk);

  /// The next event that is complete; nothing if more bytes are needed for it.
  ///
  /// Errors: `bad_message` for a frame that is no message.
  [[nodiscard]] auto next() -> std::optional<Event>;

  /// To be sent to who has proved that it knows the token.
  [[nodiscard]] auto answer(HandshakeStatus status) const -> Handshake;

 private:
  enum class State { waiting, challenged, greeted, ended };
  static constexpr std::size_t read_bytes = std::size_t{64} << 10U;

  [[nodiscard]] auto wanted_handshake() const noexcept -> std::size_t;

  auto next_of_handshake() -> std::optional<Event>;

  auto judge(HandshakeView const& shown) -> Event;

  auto refuse(std::optional<HandshakeStatus> answer, std::string text) -> Event;

  Expected expected_;
  State state_ = State::waiting;
  Bytes handshake_;
  HandshakeBegin begin_;
  ControlFrames<WorkerMessage> frames_;
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/launch/detail/control_session-inl.hpp>
#endif
