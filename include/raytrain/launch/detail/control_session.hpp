// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
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

/// A client has shown the token and says which rank it is.
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
/// Before the token is shown it holds at most `handshake_bytes` bytes and looks at nothing else.
class ControlSession {
 public:
  using Event = std::variant<Hello, Refusal, Heartbeat, Goodbye, Message>;

  ControlSession(RunToken const& token, WorldSize world) : token_{token}, world_{world} {}

  /// How many bytes it makes sense to read before feeding them.
  [[nodiscard]] auto wanted_bytes() const noexcept -> std::size_t {
    return state_ == State::greeted ? read_bytes : handshake_bytes - handshake_.size();
  }

  /// Of a handshake that is not complete.
  [[nodiscard]] auto received_bytes() const noexcept -> std::size_t { return handshake_.size(); }

  /// Takes in the stream's next bytes. Call `next` until it has nothing left before feeding more.
  ///
  /// Errors: `bad_message` for a length that no frame may have.
  void feed(BytesView chunk) {
    if (state_ == State::ended) return;
    if (state_ == State::waiting) {
      auto const part = chunk.first(std::min(chunk.size(), handshake_bytes - handshake_.size()));
      handshake_.insert(handshake_.end(), part.begin(), part.end());
      chunk = chunk.subspan(part.size());
      judge();
      early_.assign(chunk.begin(), chunk.end());
    } else {
      frames_.feed(chunk);
    }
  }

  /// The next event that is complete; nothing if more bytes are needed for it.
  ///
  /// Errors: `bad_message` for a frame that is no message.
  [[nodiscard]] auto next() -> std::optional<Event> {
    if (verdict_) return std::exchange(verdict_, std::nullopt);
    if (state_ != State::greeted) return std::nullopt;
    if (!early_.empty()) frames_.feed(std::exchange(early_, {}));
    auto item = frames_.next();
    if (!item) return std::nullopt;
    if (std::holds_alternative<Goodbye>(*item)) state_ = State::ended;
    return std::visit([](auto& it) { return Event{std::move(it)}; }, *item);
  }

 private:
  enum class State { waiting, greeted, ended };
  static constexpr std::size_t read_bytes = std::size_t{64} << 10U;

  void judge() {
    auto const received = text_of(handshake_);
    if (!handshake_magic.starts_with(received.substr(0, handshake_magic.size()))) {
      return refuse(std::nullopt, "sent something else than raytrain's handshake");
    }
    if (handshake_.size() < handshake_bytes) return;
    HandshakeView const shown{handshake_};
    // Before all else: who does not know the token has nothing looked at and learns nothing.
    if (!RunToken::same(shown.proof, token_.client_half())) return refuse(std::nullopt, "sent a wrong token");
    if (shown.version != protocol_version) {
      return refuse(HandshakeStatus::other_version, "has protocol version " + std::to_string(shown.version) +
                                                        ", and this side has " + std::to_string(protocol_version));
    }
    if (shown.number >= world_.value) {
      return refuse(HandshakeStatus::no_such_rank,
                    "says that it is rank " + std::to_string(shown.number) + " of " + std::to_string(world_.value));
    }
    state_ = State::greeted;
    verdict_ = Hello{Rank{shown.number}};
  }

  void refuse(std::optional<HandshakeStatus> answer, std::string text) {
    state_ = State::ended;
    verdict_ = Refusal{answer, std::move(text)};
  }

  RunToken const& token_;
  WorldSize world_;
  State state_ = State::waiting;
  Bytes handshake_;
  Bytes early_;  ///< What came in one chunk with the end of the handshake, and is looked at once that is told.
  std::optional<Event> verdict_;
  ControlFrames frames_;
};

}  // namespace raytrain::detail
