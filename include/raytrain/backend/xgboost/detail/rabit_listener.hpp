// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include <raytrain/backend/xgboost/detail/rabit_wire.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/clock.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/exec/deadline.hpp>
#include <raytrain/exec/executor.hpp>
#include <raytrain/exec/scope.hpp>
#include <raytrain/exec/sockets.hpp>
#include <raytrain/exec/timer.hpp>

namespace raytrain::detail {

/// Listens for workers, and lets in who says a whole greeting in time; everybody else is closed again.
///
/// At most `max_silent` connections without a greeting are held: a worker greets at once, so that the oldest of them
/// makes way.
///
/// Threads: the executor's; also any one thread while the executor does not run.
class RabitListener {
 public:
  struct Options {
    RabitForm form = RabitForm::numbers;
    std::string address = "127.0.0.1";
    std::chrono::milliseconds greeting_timeout{5000};
    std::size_t max_silent = 64;
  };
  struct Events {
    std::function<void(RabitGreeting, SocketStream)> on_greeting;
    std::function<void(std::string)> on_stranger;
  };

  /// Errors: `io` when it cannot listen at the address; `invalid_config` for what is no IPv4 address.
  RabitListener(Executor& executor, Options options, Events events)
      : executor_{executor}, options_{std::move(options)}, events_{std::move(events)} {
    SocketAddress const wanted{"tcp:" + options_.address + ":0"};
    listener_.emplace(executor_, wanted);
    port_ = listener_->address().port();
  }

  [[nodiscard]] auto port() const noexcept -> std::uint16_t { return port_; }

  /// Runs until it is cancelled; then nothing listens any more.
  ///
  /// Cancel: terminal; throws `std::system_error`.
  [[nodiscard("co_await the result")]] auto serve() -> asio::awaitable<void> {
    Scope scope{executor_};
    scope.spawn(accept_all(scope));
    try {
      co_await scope.join();
    } catch (...) {
      listener_.reset();
      throw;
    }
  }

 private:
  struct Connection {
    SocketStream stream;
    RabitGreetingDecoder decoder;
    bool evicted = false;
  };

  /// Keeps a connection in the list until its greeting is over.
  class Listing {
   public:
    Listing(std::list<Connection*>& list, Connection& connection) : silent_{list} {
      position_ = list.insert(list.end(), &connection);
    }
    Listing(Listing const&) = delete;
    auto operator=(Listing const&) -> Listing& = delete;
    ~Listing() { silent_.erase(position_); }

   private:
    std::list<Connection*>& silent_;
    std::list<Connection*>::iterator position_;
  };

  auto accept_all(Scope& scope) -> asio::awaitable<void> {
    Timer pause{executor_};
    while (true) {
      std::optional<SocketStream> stream;
      try {
        stream.emplace(co_await listener_->accept());
      } catch (std::system_error const& error) {
        if (is_cancellation(error)) throw;
        events_.on_stranger("a connection cannot be accepted: " + error.code().message());
      }
      if (stream) {
        if (silent_.size() >= options_.max_silent) evict_oldest();
        scope.spawn(attend(std::move(*stream)));
      } else {
        // Without descriptors the next try would fail as well, and at once.
        auto const later = executor_.clock().now() + accept_pause;
        co_await pause.wait_until(later);
      }
    }
  }

  void evict_oldest() {
    for (auto* const connection : silent_) {
      if (connection->evicted) continue;
      connection->evicted = true;
      connection->stream.close();
      return;
    }
  }

  auto attend(SocketStream stream) -> asio::awaitable<void> {
    Connection connection{std::move(stream), RabitGreetingDecoder{options_.form}};
    std::string why;
    {
      Listing const listed{silent_, connection};
      auto const deadline = executor_.clock().now() + options_.greeting_timeout;
      try {
        bool const in_time = co_await finish_by(executor_, deadline, listen_to(connection));
        if (!in_time) {
          why = "sent " + std::to_string(connection.decoder.received_bytes()) + " bytes of a greeting in " +
                std::to_string(options_.greeting_timeout.count()) + " ms";
        } else if (!connection.decoder.is_complete()) {
          why = "left in its greeting, after " + std::to_string(connection.decoder.received_bytes()) + " bytes";
        }
      } catch (Error const& error) {
        why = "sent " + error.happened();
      } catch (std::system_error const& error) {
        if (is_cancellation(error) && !connection.evicted) throw;
        why = connection.evicted ? "sent no greeting, and made way for others" : error.code().message();
      }
    }
    if (why.empty()) {
      events_.on_greeting(std::move(connection.decoder.greeting()), std::move(connection.stream));
    } else {
      events_.on_stranger(connection.stream.peer() + ' ' + why);
    }
  }

  /// Returns after the greeting, or when the other side has closed the connection.
  static auto listen_to(Connection& connection) -> asio::awaitable<void> {
    Bytes buffer;
    bool answered = false;
    while (!connection.decoder.is_complete()) {
      buffer.resize(connection.decoder.wanted_bytes());
      auto const count = co_await connection.stream.read_some(buffer);
      if (count == 0) co_return;
      connection.decoder.feed(BytesView{buffer}.first(count));
      if (connection.decoder.has_magic() && !std::exchange(answered, true)) {
        RabitWriter answer;
        answer.add(rabit_magic);
        co_await connection.stream.write(answer.bytes());
      }
    }
  }

  static auto is_cancellation(std::system_error const& error) -> bool { return error.code().value() == ECANCELED; }

  static constexpr std::chrono::milliseconds accept_pause{100};

  Executor& executor_;
  Options const options_;
  Events const events_;
  std::optional<SocketListener> listener_;
  std::uint16_t port_ = 0;
  std::list<Connection*> silent_;  ///< Without a greeting, the oldest first.
};

}  // namespace raytrain::detail
