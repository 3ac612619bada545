// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <thread>
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
#include <raytrain/launch/detail/handshake.hpp>
#include <raytrain/launch/message_sink.hpp>
#include <raytrain/launch/run_token.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain {

/// A worker process's end of the connection to its controller, which has a `ControlServer`.
///
/// Threads: every function from any thread, but `close` and the destructor from none of the events. After the
///          constructor one thread of its own does all the work and calls the events; `send` writes what it can itself.
class ControlClient final : public MessageSink {
 public:
  struct Options {
    std::vector<std::string> addresses{};  ///< `ControlServer::addresses`; Unix sockets are tried first.
    int descriptor = -1;  ///< Instead of addresses: the other end of what `ControlServer::adopt` was given.
    RunToken token;       ///< No default: the server's.
    Rank rank{};
    std::chrono::milliseconds connect_limit{30'000};
    std::chrono::milliseconds heartbeat_interval{1000};
    std::chrono::milliseconds silence_limit{30'000};  ///< A server that is not heard of for longer is lost.
    std::chrono::milliseconds flush_limit{10'000};    ///< For `close`: what was sent last may be why a run failed.
    std::size_t max_unwritten_bytes = std::size_t{1} << 20U;  ///< `send` waits while more than that is not written.
  };

  /// They must neither wait nor throw. None comes after `close` has begun to write the last messages.
  struct Events {
    std::function<void(ControllerMessage)> on_message;
    /// Once, behind all messages, also when the server closes in order. The text says "the connection ...".
    std::function<void(std::string)> on_lost;
  };

  /// Connects, and tries again until `connect_limit`.
  ///
  /// Errors: `timed_out` or `io`, naming each address and what came of it; `bad_message` for a server of another
  ///         protocol version; `invalid_config` for what is no address, and when the server has no such rank or has
  ///         it already.
  ControlClient(Options options, Events events);
  ControlClient(ControlClient const&) = delete;
  auto operator=(ControlClient const&) -> ControlClient& = delete;
  ~ControlClient() override { close(); }

  /// Waits while too much is not written; false once the connection is lost or closed, and then the message is gone.
  /// Inside an event it does not wait. Messages arrive in the order in which one thread sent them.
  ///
  /// Errors: as `encode`.
  auto send(WorkerMessage message) -> bool override;

  /// Writes what was sent, says goodbye, and waits until the server has read it all; at most `flush_limit`, after
  /// which the server may have lost this rank. Idempotent.
  ///
  /// Errors: `invalid_call` inside an event, which would wait for itself.
  void close();

 private:
  using TimePoint = Clock::TimePoint;

  struct Target {
    std::optional<SocketAddress> address;  ///< None: `Options::descriptor`.
    std::string outcome;                   ///< What came of the last attempt.
    bool timed_out = false;

    void timeout(std::string text);
  };

  [[nodiscard]] auto now() const -> TimePoint { return executor_.clock().now(); }

  auto connect() -> asio::awaitable<void> {
    auto const deadline = now() + options_.connect_limit;
    Timer timer{executor_};
    for (auto pause = first_pause;; pause = std::min(2 * pause, longest_pause)) {
      for (auto& target : targets_) {
        co_await attempt(target, deadline);
        if (stream_) co_return;
      }
      auto const again = now() + pause;
      if (targets_.empty() || options_.descriptor >= 0 || again >= deadline) throw_not_connected();
      co_await timer.wait_until(again);
    }
  }

  /// Leaves a connection in `stream_`, or says in `target` why there is none.
  auto attempt(Target& target, TimePoint deadline) -> asio::awaitable<void> {
    bool accepted = false;
    target.timed_out = false;
    try {
      auto const open_by = std::min(deadline, now() + open_limit);
      bool const opened = co_await finish_by(executor_, open_by, open(target));
      if (opened) {
        auto const greet_by = std::min(deadline, now() + greet_limit);
        bool const greeted = co_await finish_by(executor_, greet_by, greet(target, accepted));
        if (!greeted) target.timeout("connected, and nothing answers the handshake");
      } else {
        target.timeout("nothing answers");
      }
    } catch (std::system_error const& error) {
      target.outcome = error.code().message();
    }
    if (!accepted) stream_.reset();
  }

  auto open(Target const& target) -> asio::awaitable<void> {
    if (target.address) {
      stream_.emplace(co_await SocketStream::connect(executor_, *target.address));
    } else {
      stream_.emplace(executor_, options_.descriptor, "the controller");
    }
  }

  auto greet(Target& target, bool& accepted) -> asio::awaitable<void> {
    auto const nonce = detail::random_nonce();
    detail::HandshakeBegin begin;
    begin.hello = detail::make_hello(nonce, options_.rank);
    co_await stream_->write(begin.hello);
    bool const challenged = co_await receive(begin.challenge, target);
    if (!challenged) co_return;
    auto const proof = begin.proof(options_.token);
    co_await stream_->write(proof);
    detail::Handshake answer{};
    bool const answered = co_await receive(answer, target);
    if (!answered) co_return;
    detail::HandshakeView const shown{answer};
    if (!begin.is_answer(options_.token, shown)) {
      target.outcome = no_controller;
      co_return;
    }
    refuse_unless_accepted(shown);
    accepted = true;
  }

  /// One part of the handshake; false when something else came or nothing more, which `target` then tells.
  auto receive(detail::Handshake& part, Target& target) -> asio::awaitable<bool> {
    for (std::size_t received = 0; received < part.size();) {
      auto const room = std::span{part}.subspan(received);
      auto const count = co_await stream_->read_some(room);
      if (count == 0) {
        target.outcome = "connected, and refused without a word: it may belong to another run";
        co_return false;
      }
      received += count;
    }
    if (detail::HandshakeView{part}.magic == detail::handshake_magic) co_return true;
    target.outcome = no_controller;
    co_return false;
  }

  void refuse_unless_accepted(detail::HandshakeView const& answer) const;

  [[nodiscard]] auto attempted() const -> std::string;

  [[noreturn]] void throw_not_connected() const;

  auto serve() -> asio::awaitable<void> {
    Scope talk{executor_};
    Scope heartbeats{executor_};
    talk.spawn(read());
    talk.spawn(outbox_.write_to(*stream_));
    heartbeats.spawn(watch_heartbeats());
    co_await close_asked_.receive();

    closing_ = true;
    heartbeats.cancel();
    co_await heartbeats.join();
    outbox_.close();
    auto const deadline = now() + options_.flush_limit;
    co_await finish_by(executor_, deadline, talk.join());
    stream_->close();
  }

  auto read() -> asio::awaitable<void> {
    std::string why;
    Bytes buffer(read_bytes);
    detail::ControlFrames<ControllerMessage> frames;
    try {
      while (why.empty()) {
        auto const count = co_await stream_->read_some(buffer);
        heard_ = now();
        if (count == 0) {
          why = detail::without_goodbye("the controller's");
          break;
        }
        frames.feed(BytesView{buffer}.first(count));
        if (take(frames)) why = "was closed by the controller";
      }
    } catch (...) {
      why = detail::broken_by_exception("the controller's");
    }
    outbox_.close();
    stream_->close();
    if (!closing_ && events_.on_lost) events_.on_lost("the connection " + (silence_.empty() ? why : silence_));
  }

  /// What has come so far; true after a goodbye.
  auto take(detail::ControlFrames<ControllerMessage>& frames) -> bool;

  /// Sends heartbeats, and ends a connection over which none comes.
  auto watch_heartbeats() -> asio::awaitable<void> {
    Timer timer{executor_};
    heard_ = now();
    auto const heartbeat = std::make_shared<Bytes const>(detail::heartbeat_frame());
    while (true) {
      auto const due = now() + options_.heartbeat_interval;
      co_await timer.wait_until(due);
      auto const late = now() - due;
      // Where this process itself stood still, what the server has sent meanwhile is not read yet.
      if (late > options_.heartbeat_interval) heard_ += late;
      if (now() - heard_ > options_.silence_limit) {
        silence_ = detail::silent_for(options_.silence_limit, "the controller's");
        outbox_.close();
        stream_->close();
        co_return;
      }
      if (outbox_.bytes() == 0) outbox_.push(heartbeat);
    }
  }

  static constexpr auto no_controller = "connected, and what answers is not this run's controller";
  static constexpr std::chrono::milliseconds first_pause{50};
  static constexpr std::chrono::milliseconds longest_pause{1000};
  static constexpr std::chrono::seconds open_limit{5};    ///< So that one address leaves time for the others.
  static constexpr std::chrono::seconds greet_limit{15};  ///< A server with thousands of ranks is slow to answer.
  static constexpr std::size_t read_bytes = std::size_t{64} << 10U;

  Options const options_;
  Events const events_;
  SystemClock clock_;
  Executor executor_{clock_};
  std::vector<Target> targets_;
  detail::ControlOutbox outbox_{executor_};
  Channel<bool> close_asked_{executor_, 1};  ///< Brings nothing; closed to end the client.

  // The thread's own.
  std::optional<SocketStream> stream_;
  TimePoint heard_{};  ///< Last time that bytes came.
  std::string silence_;
  bool closing_ = false;

  std::mutex close_mutex_;
  std::thread thread_;  ///< Last: it uses everything above.
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/launch/control_client-inl.hpp>
#endif
