// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <initializer_list>
#include <list>
#include <string>
#include <system_error>

#include <asio/awaitable.hpp>
#include <asio/signal_set.hpp>
#include <asio/this_coro.hpp>
#include <asio/use_awaitable.hpp>

#include <raytrain/core/error.hpp>
#include <raytrain/exec/detail/echo_filter.hpp>
#include <raytrain/exec/detail/event.hpp>
#include <raytrain/exec/detail/saved_signal_action.hpp>
#include <raytrain/exec/executor.hpp>

namespace raytrain {

/// Signals of this process as values. While it lives they have no other effect; afterwards they do what they did
/// before.
///
/// Threads: the executor's; also any one thread while the executor does not run.
/// Cancel:  terminal, of `next`.
class SignalWatcher {
 public:
  /// Errors: `invalid_call` for a signal that cannot be caught.
  SignalWatcher(Executor& executor, std::initializer_list<int> signals) : signals_{executor.context()} {
    for (int const signal : signals) {
      before_.emplace_back(signal);
      std::error_code error;
      signals_.add(signal, error);
      if (error) {
        throw Error{Errc::invalid_call, "SignalWatcher",
                    "signal " + std::to_string(signal) + " cannot be caught: " + error.message(),
                    "watch signals such as SIGINT and SIGTERM"};
      }
    }
  }

  /// The number of the next signal. Those that come while nobody waits are kept.
  ///
  /// Cancel: terminal; throws `std::system_error`, and no signal is lost.
  [[nodiscard("co_await the result")]] auto next() -> asio::awaitable<int> {
    auto const state = co_await asio::this_coro::cancellation_state;
    detail::Event::throw_if_cancelled(state);
    int const signal = co_await signals_.async_wait(asio::use_awaitable);
    co_return signal;
  }

  /// Drops one of the watched signals for this long, from now on, when this watcher is gone by then.
  static void drop_echoes(int signal, std::chrono::nanoseconds duration) {
    detail::EchoFilter::expect(signal, duration);
  }

 private:
  std::list<detail::SavedSignalAction> before_;  ///< First: restores after `signals_` has let go.
  asio::signal_set signals_;
};

}  // namespace raytrain
