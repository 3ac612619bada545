// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include <raytrain/core/bytes.hpp>
#include <raytrain/core/rank.hpp>
#include <raytrain/launch/detail/control_frames.hpp>
#include <raytrain/launch/detail/handshake.hpp>
#include <raytrain/launch/run_token.hpp>
#include <raytrain/message/codec.hpp>

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
  using Event = std::variant<Challenge, Hello, Refusal, Heartbeat, Goodbye, Message>;

  /// A hello and a proof.
  static constexpr std::size_t max_handshake_bytes = 2 * handshake_bytes;

  /// Whom a server expects.
  struct Expected {
    RunToken const& token;
    Rank first{};  ///< The ranks from here on.
    WorldSize world{1};
  };

  ControlSession(Expected expected, Nonce const& nonce) : expected_{expected} {
    begin_.challenge = make_challenge(nonce);
  }

  /// The most bytes that `feed` takes.
  [[nodiscard]] auto wanted_bytes() const noexcept -> std::size_t {
    auto const begins = state_ == State::waiting || state_ == State::challenged;
    return begins ? wanted_handshake() - handshake_.size() : read_bytes;
  }

  /// What has come of a handshake that is not complete.
  [[nodiscard]] auto received_bytes() const noexcept -> std::size_t { return handshake_.size(); }

  /// Whether a whole hello, or something else in its place, has come.
  [[nodiscard]] auto has_challenged() const noexcept -> bool { return state_ != State::waiting; }

  /// Takes in the stream's next bytes. Call `next` until it has nothing left before feeding more.
  ///
  /// Errors: `bad_message` for a length that no frame may have.
  void feed(BytesView chunk) {
    if (state_ == State::ended) return;
    assert(chunk.size() <= wanted_bytes());
    if (state_ == State::greeted) return frames_.feed(chunk);
    handshake_.insert(handshake_.end(), chunk.begin(), chunk.end());
  }

  /// The next event that is complete; nothing if more bytes are needed for it.
  ///
  /// Errors: `bad_message` for a frame that is no message.
  [[nodiscard]] auto next() -> std::optional<Event> {
    if (state_ == State::ended) return std::nullopt;
    if (state_ != State::greeted) return next_of_handshake();
    auto item = frames_.next();
    if (!item) return std::nullopt;
    if (std::holds_alternative<Goodbye>(*item)) state_ = State::ended;
    return std::visit([](auto& it) { return Event{std::move(it)}; }, *item);
  }

  /// To be sent to who has proved that it knows the token.
  [[nodiscard]] auto answer(HandshakeStatus status) const -> Handshake {
    return begin_.answer(expected_.token, status);
  }

 private:
  enum class State { waiting, challenged, greeted, ended };
  static constexpr std::size_t read_bytes = std::size_t{64} << 10U;

  [[nodiscard]] auto wanted_handshake() const noexcept -> std::size_t {
    return state_ == State::waiting ? handshake_bytes : max_handshake_bytes;
  }

  auto next_of_handshake() -> std::optional<Event> {
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

  auto judge(HandshakeView const& shown) -> Event {
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

  auto refuse(std::optional<HandshakeStatus> answer, std::string text) -> Event {
    state_ = State::ended;
    return Refusal{answer, std::move(text)};
  }

  Expected expected_;
  State state_ = State::waiting;
  Bytes handshake_;
  HandshakeBegin begin_;
  ControlFrames frames_;
};

}  // namespace raytrain::detail
