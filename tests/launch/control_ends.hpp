// SPDX-License-Identifier: Apache-2.0
// Both ends of a control connection as tests want them: events that can be waited for, and ends that misbehave.
#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/core/bytes.hpp>
#include <raytrain/exec/sockets.hpp>
#include <raytrain/launch/control_client.hpp>
#include <raytrain/launch/control_server.hpp>
#include <raytrain/launch/detail/handshake.hpp>

namespace raytrain::testing {

/// For what comes at once unless something is wrong.
inline constexpr std::chrono::seconds backoff{100};

/// Values that one thread writes down and another waits for.
class Watched {
 public:
  template <class Change>
  void change(Change const& change) {
    {
      std::lock_guard const lock{mutex_};
      change();
    }
    changed_.notify_all();
  }

  template <class Holds>
  void wait(Holds const& holds) {
    std::unique_lock lock{mutex_};
    REQUIRE(changed_.wait_for(lock, backoff, holds));
  }

  template <class Look>
  auto look(Look const& look) {
    std::lock_guard const lock{mutex_};
    return look();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
};

/// What a server says.
struct ServerLog : Watched {
  std::map<Rank, std::vector<WorkerMessage>> messages;
  std::vector<std::pair<Rank, std::string>> lost;
  std::vector<std::string> strangers;
  std::map<Rank, bool> full;  ///< Ranks whose messages find no room.
  int refusals = 0;

  auto events() -> ControlServer::Events {
    return {[this](Rank rank, WorkerMessage& message) {
              bool taken = true;
              change([&] {
                taken = !full[rank];
                if (taken) {
                  messages[rank].push_back(std::move(message));
                } else {
                  ++refusals;
                }
              });
              return taken;
            },
            [this](Rank rank, ControlServer::LostConnection why) {
              auto const begins = [&](char const* how) {
                return why.text.starts_with(std::string{"its connection "} + how);
              };
              CHECK(why.is_broken == (begins("ended") || begins("broke") || begins("left before")));
              change([&] { lost.emplace_back(rank, std::move(why.text)); });
            },
            [this](std::string text) { change([&] { strangers.push_back(std::move(text)); }); }};
  }

  auto wait_for_messages(Rank rank, std::size_t count) -> std::vector<WorkerMessage> {
    wait([&] { return messages[rank].size() >= count; });
    return look([&] { return messages[rank]; });
  }
  auto wait_for_loss() -> std::pair<Rank, std::string> {
    wait([&] { return !lost.empty(); });
    return look([&] { return lost.front(); });
  }
  auto wait_for_stranger(std::string_view part) -> std::string {
    std::string found;
    wait([&] {
      for (auto const& text : strangers) {
        if (text.find(part) != std::string::npos) found = text;
      }
      return !found.empty();
    });
    return found;
  }
  auto losses() -> std::size_t {
    return look([&] { return lost.size(); });
  }
};

/// What a client says.
struct ClientLog : Watched {
  std::vector<ControllerMessage> messages;
  std::vector<std::string> lost;

  auto events() -> ControlClient::Events {
    return {[this](ControllerMessage message) { change([&] { messages.push_back(std::move(message)); }); },
            [this](std::string why) { change([&] { lost.push_back(std::move(why)); }); }};
  }

  auto wait_for_messages(std::size_t count) -> std::vector<ControllerMessage> {
    wait([&] { return messages.size() >= count; });
    return look([&] { return messages; });
  }
  auto wait_for_loss() -> std::string {
    wait([&] { return !lost.empty(); });
    return look([&] { return lost.front(); });
  }
};

/// Of a client that is told nothing.
[[nodiscard]] inline auto no_events() -> ControlClient::Events {
  return {[](ControllerMessage const&) {}, [](std::string const&) {}};
}

[[nodiscard]] inline auto on_loopback(std::uint32_t world) -> ControlServer::Options {
  ControlServer::Options options;
  options.world = WorldSize{world};
  options.interface_address = "127.0.0.1";
  return options;
}

[[nodiscard]] inline auto client_of(ControlServer const& server, Rank rank) -> ControlClient::Options {
  return {.addresses = server.addresses(), .token = server.token(), .rank = rank};
}

/// A connection without manners. Reads and writes fail after `backoff`.
class RawPeer {
 public:
  explicit RawPeer(std::string_view address) {
    SocketAddress const target{address};
    descriptor_ = ::socket(target.data()->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    REQUIRE(descriptor_ >= 0);
    REQUIRE(::connect(descriptor_, target.data(), target.size_bytes()) == 0);
    limit();
  }
  /// Of an accepted connection.
  explicit RawPeer(int descriptor) : descriptor_{descriptor} {
    REQUIRE(descriptor_ >= 0);
    limit();
  }
  RawPeer(RawPeer&& other) noexcept : descriptor_{std::exchange(other.descriptor_, -1)} {}
  auto operator=(RawPeer&&) -> RawPeer& = delete;
  ~RawPeer() { close(); }

  void send(BytesView bytes) const {
    while (!bytes.empty()) {
      auto const count = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      REQUIRE(count > 0);
      bytes = bytes.subspan(static_cast<std::size_t>(count));
    }
  }

  /// As many bytes, or fewer if the other end closes.
  [[nodiscard]] auto read(std::size_t count) const -> Bytes {
    Bytes bytes(count);
    std::size_t received = 0;
    while (received < count) {
      auto const more = ::recv(descriptor_, bytes.data() + received, count - received, 0);
      if (more == 0 || (more < 0 && errno == ECONNRESET)) break;
      REQUIRE(more > 0);
      received += static_cast<std::size_t>(more);
    }
    bytes.resize(received);
    return bytes;
  }

  /// Whether the other end has closed, with `backoff` to do so; what it has sent is skipped.
  [[nodiscard]] auto is_closed() const -> bool {
    while (read(1024).size() == 1024) {
    }
    return true;
  }

  /// The first half of a client's handshake.
  [[nodiscard]] auto say_hello(detail::Handshake const& hello) const -> detail::HandshakeBegin {
    send(hello);
    return {hello, read_handshake()};
  }

  /// Whether a server that has read the proof takes this for one of its ranks.
  [[nodiscard]] auto read_answer(RunToken const& token, detail::HandshakeBegin const& begin) const
      -> detail::HandshakeStatus {
    auto const answer = read_handshake();
    detail::HandshakeView const shown{answer};
    REQUIRE(begin.is_answer(token, shown));
    return static_cast<detail::HandshakeStatus>(shown.number);
  }

  [[nodiscard]] auto join(RunToken const& token, detail::Handshake const& hello) const -> detail::HandshakeStatus {
    auto const begin = say_hello(hello);
    send(begin.proof(token));
    return read_answer(token, begin);
  }

  void shake_hands(RunToken const& token, Rank rank) const {
    REQUIRE(join(token, detail::make_hello(detail::random_nonce(), rank)) == detail::HandshakeStatus::accepted);
  }

  /// A server's side of it.
  void accept_hands(RunToken const& token) const {
    detail::HandshakeBegin begin{read_handshake(), detail::make_challenge(detail::random_nonce())};
    send(begin.challenge);
    auto const proof = read_handshake();
    REQUIRE(begin.is_proof(token, detail::HandshakeView{proof}));
    send(begin.answer(token, detail::HandshakeStatus::accepted));
  }

  [[nodiscard]] auto read_handshake() const -> detail::Handshake {
    auto const bytes = read(detail::handshake_bytes);
    detail::Handshake handshake{};
    REQUIRE(bytes.size() == handshake.size());
    std::ranges::copy(bytes, handshake.begin());
    return handshake;
  }

  void close() {
    if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
  }

  /// Closes so that the other end finds the connection reset.
  void reset() {
    linger const at_once{1, 0};
    ::setsockopt(descriptor_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close();
  }

 private:
  void limit() const {
    timeval const limit{backoff.count(), 0};
    ::setsockopt(descriptor_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    ::setsockopt(descriptor_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  }

  int descriptor_ = -1;
};

/// A TCP port at which the test itself answers.
class RawListener {
 public:
  RawListener() : descriptor_{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)} {
    SocketAddress const any{"tcp:127.0.0.1:0"};
    REQUIRE(::bind(descriptor_, any.data(), any.size_bytes()) == 0);
    REQUIRE(::listen(descriptor_, 8) == 0);
  }
  RawListener(RawListener const&) = delete;
  auto operator=(RawListener const&) -> RawListener& = delete;
  ~RawListener() { ::close(descriptor_); }

  [[nodiscard]] auto address() const -> std::string {
    sockaddr_storage address{};
    socklen_t size_bytes = sizeof address;
    ::getsockname(descriptor_, reinterpret_cast<sockaddr*>(&address), &size_bytes);
    return SocketAddress{address, size_bytes}.text();
  }

  [[nodiscard]] auto has_visitor() const -> bool {
    pollfd waits{descriptor_, POLLIN, 0};
    return ::poll(&waits, 1, 0) > 0;
  }

  [[nodiscard]] auto accept() const -> RawPeer { return RawPeer{::accept(descriptor_, nullptr, nullptr)}; }

 private:
  int descriptor_;
};

}  // namespace raytrain::testing
