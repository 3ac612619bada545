// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include <raytrain/core/bytes.hpp>
#include <raytrain/core/clock.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/exec/channel.hpp>
#include <raytrain/exec/deadline.hpp>
#include <raytrain/exec/executor.hpp>
#include <raytrain/exec/scope.hpp>
#include <raytrain/exec/sockets.hpp>
#include <raytrain/exec/timer.hpp>
#include <raytrain/launch/detail/control_frames.hpp>
#include <raytrain/launch/detail/control_outbox.hpp>
#include <raytrain/launch/detail/control_session.hpp>
#include <raytrain/launch/detail/handshake.hpp>
#include <raytrain/launch/detail/rejected_log.hpp>
#include <raytrain/launch/run_token.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain {

/// The controller's end of the lines to the processes of its workers, which connect by `ControlClient`.
///
/// Each rank connects once, unless `adopt` is told of another process for it. It is lost when its connection ends
/// without a goodbye, when nothing is heard of it for too long, when it sends what is no message, and when it does not
/// read; a rank that never connects is not noticed here. Whoever connects without the run's token is closed again,
/// whatever it sends. Once every rank has connected nobody can any more.
///
/// Threads: every function from any thread, but `close` and the destructor from none of the events. One thread of its
///          own does all the work and calls the events; `tell` writes what it can itself.
class ControlServer {
 public:
  struct Options {
    WorldSize world{1};
    Rank first_rank{};  ///< The ranks from here on connect; those below live in the server's own process.
    RunToken token = RunToken::random();
    bool listens = true;                                 ///< Otherwise connections come by `adopt` alone.
    std::string interface_address{};                     ///< IPv4 address to listen at; empty: all of this host.
    std::uint16_t port = 0;                              ///< 0: one that is free.
    bool unix_socket_too = false;                        ///< Faster for ranks of this host.
    std::chrono::milliseconds heartbeat_interval{1000};  ///< Also how often the limits below are looked at.
    std::chrono::milliseconds silence_limit{30'000};     ///< A rank that is not heard of for longer is lost.
    std::chrono::milliseconds suspended_limit{30'000};   ///< As that, for one that `Events::is_suspended`.
    std::chrono::milliseconds handshake_timeout{5000};
    std::chrono::milliseconds flush_limit{2000};  ///< For `close`.
    /// Connections without a handshake, beyond one for each rank that is still expected; one without a whole
    /// hello makes way first, and among equals the oldest. At least 1.
    std::size_t max_strangers = 64;
    std::size_t max_unwritten_bytes = std::size_t{64} << 20U;  ///< A rank for which more waits does not read: lost.
  };

  /// How a rank's connection has ended without a goodbye.
  struct LostConnection {
    std::string text;  ///< "its connection ..."
    bool is_broken;    ///< By its process's end, or on the way; else the server has given it up.
  };

  /// They must neither wait nor throw, since nothing else happens meanwhile. None comes after `close` has returned.
  struct Events {
    /// False for "no room": it is called again a millisecond later with the same message, and meanwhile nothing more is
    /// read of that rank. Messages of one rank come in the order in which it sent them.
    std::function<bool(Rank, WorkerMessage&)> on_message;
    /// Once for each process that comes, or was adopted, as a rank and ends without a goodbye, behind all its messages.
    std::function<void(Rank, LostConnection)> on_lost;
    /// Somebody connected who is no rank of this run: at first a text for each, then a count now and then.
    std::function<void(std::string)> on_stranger;
    /// Whether a rank that is not heard of cannot say anything, since its process is suspended (SIGSTOP).
    std::function<bool(Rank)> is_suspended = {};
    /// A rank's connection has ended with a goodbye.
    std::function<void(Rank)> on_goodbye = {};
    /// Whether a process that has connected as this rank may send that, where it may speak as another rank by now.
    std::function<bool(Rank, WorkerMessage const&)> is_own = {};
    /// A rank has connected, before its first message; its process, where a Unix socket tells it, else 0.
    std::function<void(Rank, ::pid_t)> on_connected = {};
  };

  /// Listens when it returns.
  ///
  /// Errors: `invalid_config`; `io` when it cannot listen at the address or port.
  ControlServer(Options options, Events events);
  ControlServer(ControlServer const&) = delete;
  auto operator=(ControlServer const&) -> ControlServer& = delete;
  ~ControlServer() { close(); }

  /// What clients are to try, "unix:..." and "tcp:...".
  [[nodiscard]] auto addresses() const noexcept -> std::vector<std::string> const& { return addresses_; }
  [[nodiscard]] auto token() const noexcept -> RunToken const& { return options_.token; }

  /// Never waits. Before the rank has connected the message is kept for it; for a lost one it is dropped.
  ///
  /// Errors: `invalid_call` for a rank that does not connect; as `encode`.
  void tell(Rank rank, ControllerMessage const& message);

  /// `tell` for each rank, or each of those below `world`, encoded once.
  void tell_all(ControllerMessage const& message, std::optional<WorldSize> world = {});

  /// Awaits a process as this rank that has the other end of a connected Unix socket, for as long as it takes. What is
  /// told from now on is for this process. The rank is lost, too, when the connection ends before the handshake does.
  ///
  /// `descriptor` is the server's from now on, whatever happens.
  ///
  /// Threads: that of `tell`.
  /// Errors:  `invalid_call` while the rank is connected, and after `close`; `io` where the system refuses it.
  void adopt(Rank rank, int descriptor);

  /// Writes what was told, says goodbye to every rank, and ends; at most `flush_limit` are waited for. What ranks send
  /// meanwhile is dropped. Idempotent.
  ///
  /// Errors: `invalid_call` inside an event, which would wait for itself.
  void close();

 private:
  using TimePoint = Clock::TimePoint;

  struct Connection {
    Connection(ControlServer& server, SocketStream stream_)
        : stream{std::move(stream_)},
          session{{server.options_.token, server.options_.first_rank, server.options_.world}, detail::random_nonce()},
          heard{server.now()},
          retry{server.executor_} {}

    /// The first reason counts. Ends whatever the connection waits for.
    void end(std::string reason);

    void close();

    SocketStream stream;
    detail::ControlSession session;
    TimePoint heard;  ///< Last time that bytes came; before the handshake, when it was accepted.
    Timer retry;
    std::optional<Rank> rank;
    std::optional<Rank> adopted_as;           ///< Only this rank may come by it.
    detail::ControlOutbox* outbox = nullptr;  ///< Its rank's.
    bool held = false;                        ///< There is no room for its message, so that nothing is read of it.
    bool said_goodbye = false;
    std::string why;         ///< Not empty once it is to end for any other reason.
    bool is_broken = false;  ///< As `LostConnection::is_broken`, then.
  };

  /// One for each rank.
  struct Peer {
    Peer(Executor& executor, Rank rank_) : rank{rank_}, outbox{executor} {}
    Rank rank;
    detail::ControlOutbox outbox;
    Connection* connection = nullptr;
    bool awaited = true;  ///< It may still connect: it has not, and is not lost.
  };

  /// What other threads want of the server's.
  struct Request {
    Rank rank;
    int adopted = -1;  ///< The descriptor of its connection. Otherwise too much waits for the rank.
    std::shared_ptr<std::promise<std::optional<ErrorInfo>>> refusal{};  ///< Nothing if it was taken.
  };

  void check_options() const;

  [[nodiscard]] auto peer_of(Rank rank) -> std::unique_ptr<Peer>& {
    return peers_[rank.value - options_.first_rank.value];
  }

  void check_rank(char const* function, Rank rank) const;

  void push(Peer& peer, detail::ControlOutbox::Frame frame);

  [[nodiscard]] auto now() const -> TimePoint { return executor_.clock().now(); }

  auto serve() -> asio::awaitable<void> {
    Scope connections{executor_};
    Scope housekeeping{executor_};
    for (auto& listener : std::exchange(listeners_, {})) {
      accepting_.spawn(accept_from(std::move(listener), connections));
    }
    housekeeping.spawn(watch_heartbeats());
    while (auto const request = co_await requests_.receive()) {
      if (request->adopted < 0) {
        give_up_peer(*peer_of(request->rank));
      } else {
        take_over(*request, connections);
      }
    }

    closing_ = true;
    accepting_.cancel();
    co_await accepting_.join();
    housekeeping.cancel();
    co_await housekeeping.join();
    for (auto* const stranger : strangers_) stranger->stream.close();
    for (auto& peer : peers_) peer->outbox.close();
    auto const deadline = now() + options_.flush_limit;
    co_await finish_by(executor_, deadline, connections.join());
    strangers_told_.tell_rest();
  }

  /// Listens until it is cancelled.
  auto accept_from(std::unique_ptr<SocketListener> listener, Scope& connections) -> asio::awaitable<void> {
    Timer pause{executor_};
    while (true) {
      std::optional<SocketStream> stream;
      try {
        stream.emplace(co_await listener->accept());
      } catch (std::system_error const& error) {
        if (!closing_ && awaited_ > 0) {
          strangers_told_.tell(std::string{"a connection cannot be accepted: "} + error.code().message());
        }
      }
      if (stream) {
        if (strangers_.size() >= options_.max_strangers + awaited_) drop_unauthenticated();
        connections.spawn(serve_connection(std::move(*stream)));
      } else {
        // Without descriptors the next try would fail as well, and at once.
        auto const later = now() + accept_pause;
        co_await pause.wait_until(later);
      }
    }
  }

  /// A rank says hello and proves itself at once, so that who has waited longest is the least likely to be one.
  void drop_unauthenticated();

  /// One connection from its beginning to its end.
  auto serve_connection(SocketStream stream, std::optional<Rank> adopted_as = {}) -> asio::awaitable<void> {
    Connection connection{*this, std::move(stream)};
    connection.adopted_as = adopted_as;
    strangers_.push_back(&connection);
    Scope writing{executor_};
    co_await read_messages(connection, writing);
    connection.close();
    writing.cancel();
    finish_connection(connection);
    co_await writing.join();
  }

  auto read_messages(Connection& connection, Scope& writing) -> asio::awaitable<void> {
    Bytes buffer;
    try {
      while (!connection.said_goodbye && connection.why.empty()) {
        buffer.resize(connection.session.wanted_bytes());
        auto const count = co_await connection.stream.read_some(buffer);
        if (count == 0) {
          connection.is_broken = connection.why.empty();
          connection.end(connection.rank ? detail::without_goodbye("its") : "left before the end of the handshake");
          break;
        }
        if (connection.rank) connection.heard = now();
        connection.session.feed(BytesView{buffer}.first(count));
        co_await take(connection, writing);
      }
    } catch (std::system_error const&) {
      connection.is_broken = connection.why.empty();
      connection.end(connection.rank ? detail::broken_by_exception("its") : detail::handshake_broken_by_exception());
    } catch (...) {
      connection.end(connection.rank ? detail::broken_by_exception("its") : detail::handshake_broken_by_exception());
    }
  }

  /// What the session has at hand.
  auto take(Connection& connection, Scope& writing) -> asio::awaitable<void> {
    while (connection.why.empty()) {
      auto event = connection.session.next();
      if (!event) co_return;
      if (auto* const message = std::get_if<WorkerMessage>(&*event)) {
        if (!is_own(connection, *message)) {
          connection.end("brought a message that is not its rank's own");
          co_return;
        }
        if (!deliver(connection, *message)) co_await deliver_later(connection, *message);
      } else if (auto const* const challenge = std::get_if<detail::Challenge>(&*event)) {
        co_await connection.stream.write(challenge->handshake);
      } else if (auto const* const hello = std::get_if<detail::Hello>(&*event)) {
        co_await admit_rank(connection, hello->rank, writing);
      } else if (auto const* const refusal = std::get_if<detail::Refusal>(&*event)) {
        co_await refuse(connection, *refusal);
      } else if (std::holds_alternative<detail::Goodbye>(*event)) {
        connection.said_goodbye = true;
      }
    }
  }

  [[nodiscard]] auto is_own(Connection const& connection, WorkerMessage const& message) const -> bool;

  auto deliver(Connection& connection, WorkerMessage& message) -> bool;

  auto deliver_later(Connection& connection, WorkerMessage& message) -> asio::awaitable<void> {
    connection.held = true;
    do {
      auto const later = now() + retry_pause;
      co_await connection.retry.wait_until(later);
    } while (connection.why.empty() && !deliver(connection, message));
    connection.held = false;
    connection.heard = now();
  }

  auto admit_rank(Connection& connection, Rank rank, Scope& writing) -> asio::awaitable<void> {
    auto& peer = *peer_of(rank);
    if (connection.adopted_as.value_or(rank) != rank) {
      detail::Refusal const refusal{detail::HandshakeStatus::no_such_rank,
                                    "says that it is rank " + std::to_string(rank.value)};
      co_await refuse(connection, refusal);
      co_return;
    }
    if (!peer.awaited) {
      detail::Refusal const refusal{
          detail::HandshakeStatus::rank_taken,
          "says that it is rank " + std::to_string(rank.value) +
              (peer.connection != nullptr ? ", which is connected already" : ", whose connection has ended")};
      co_await refuse(connection, refusal);
      co_return;
    }
    strangers_.remove(&connection);
    connection.rank = rank;
    connection.heard = now();
    stop_awaiting(peer);
    peer.connection = &connection;
    connection.outbox = &peer.outbox;
    if (events_.on_connected) events_.on_connected(rank, connection.stream.peer_process());
    auto const answer = connection.session.answer(detail::HandshakeStatus::accepted);
    co_await connection.stream.write(answer);
    writing.spawn(peer.outbox.write_to(connection.stream));
  }

  void stop_awaiting(Peer& peer);

  auto refuse(Connection& connection, detail::Refusal const& refusal) -> asio::awaitable<void> {
    if (refusal.answer) {
      auto const answer = connection.session.answer(*refusal.answer);
      co_await connection.stream.write(answer);
    }
    connection.end(refusal.text);
  }

  void finish_connection(Connection& connection);

  void tell_lost(Rank rank, std::string const& why, bool is_broken = false);

  /// A rank for which too much waits.
  void give_up_peer(Peer& peer);

  void take_over(Request const& request, Scope& connections);
  /// None where the system has no room for it, as who asks is told.
  [[nodiscard]] auto stream_of(Request const& request) -> std::optional<SocketStream>;

  [[nodiscard]] auto is_suspended(Rank rank, Clock::Duration silence) const -> bool {
    return silence > options_.suspended_limit && events_.is_suspended && events_.is_suspended(rank);
  }

  /// Sends heartbeats, and ends connections that say nothing.
  auto watch_heartbeats() -> asio::awaitable<void> {
    Timer timer{executor_};
    auto const heartbeat = std::make_shared<Bytes const>(detail::heartbeat_frame());
    while (true) {
      auto const due = now() + options_.heartbeat_interval;
      co_await timer.wait_until(due);
      // Where this process itself stood still, what others have sent meanwhile is not read yet.
      auto const late = now() - due;
      auto const stall = late > options_.heartbeat_interval ? late : Clock::Duration{0};
      for (auto* const stranger : strangers_) {
        stranger->heard += stall;
        if (stranger->adopted_as && is_suspended(*stranger->adopted_as, now() - stranger->heard)) {
          stranger->end(detail::suspended_for(options_.suspended_limit));
        }
        if (!stranger->adopted_as && now() - stranger->heard > options_.handshake_timeout) {
          stranger->end("sent " + std::to_string(stranger->session.received_bytes()) + " of the handshake's " +
                        std::to_string(detail::ControlSession::max_handshake_bytes) + " bytes in " +
                        std::to_string(options_.handshake_timeout.count()) + " ms");
        }
      }
      for (auto& peer : peers_) {
        auto* const connection = peer->connection;
        if (connection == nullptr) continue;
        connection->heard += stall;
        auto const silence = connection->held ? Clock::Duration{0} : now() - connection->heard;
        if (silence > options_.silence_limit) {
          connection->end(detail::silent_for(options_.silence_limit, "its"));
        } else if (is_suspended(peer->rank, silence)) {
          connection->end(detail::suspended_for(options_.suspended_limit));
        } else if (peer->outbox.bytes() == 0) {
          peer->outbox.push(heartbeat);
        }
      }
      strangers_told_.tell_rest_if_due(now());
    }
  }

  static constexpr std::chrono::milliseconds retry_pause{1};
  static constexpr std::chrono::milliseconds accept_pause{100};

  Options const options_;
  Events const events_;
  SystemClock clock_;
  Executor executor_{clock_};
  std::vector<std::string> addresses_;
  std::vector<std::unique_ptr<Peer>> peers_;
  Channel<Request> requests_{executor_, 1};  ///< Closed to end the server.

  std::vector<std::unique_ptr<SocketListener>> listeners_;  ///< Until the thread takes them over.

  // The thread's own.
  Scope accepting_{executor_};                   ///< What accepts connections; cancelled once nobody is awaited.
  std::size_t awaited_ = 0;                      ///< Peers that may still connect.
  std::list<Connection*> strangers_;             ///< Without a handshake, the oldest first.
  std::vector<std::unique_ptr<Peer>> replaced_;  ///< Whose connection may still be ending.
  detail::RejectedLog strangers_told_;
  bool closing_ = false;

  std::mutex close_mutex_;
  std::thread thread_;  ///< Last: it uses everything above.
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/launch/control_server-inl.hpp>
#endif
