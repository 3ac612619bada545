// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <semaphore.h>
#include <time.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <raytrain/core/error.hpp>
#include <raytrain/exec/detail/signal_handlers.hpp>

namespace raytrain {

/// Signals of this process as values. While it lives they have no other effect; afterwards they do what they did
/// before, or what the program has set meanwhile.
///
/// It needs no executor: a signal must also be seen while the executor's thread is kept by somebody else.
///
/// Threads: `next`, `closes_within` and `let_go` from one at a time; `close` from any.
class SignalWatcher {
 public:
  /// Errors: `invalid_call` for a signal that cannot be caught, and for more than 16 watchers at once.
  explicit SignalWatcher(std::vector<int> const& signals) : inbox_{detail::SignalHandlers::take_inbox()} {
    signals_.reserve(signals.size());
    if (inbox_ == nullptr) {
      throw Error{Errc::invalid_call, "SignalWatcher",
                  std::to_string(detail::SignalHandlers::inbox_count) + " others watch already in this process",
                  "set RunConfig::handle_signals = false for trainings beyond these"};
    }
    for (auto const signal : signals) {
      if (detail::SignalHandlers::acquire(*inbox_, signal)) {
        signals_.push_back(signal);
        continue;
      }
      std::error_code const error{errno, std::generic_category()};
      let_go();
      detail::SignalHandlers::give_back(*inbox_);
      throw Error{Errc::invalid_call, "SignalWatcher",
                  "signal " + std::to_string(signal) + " cannot be caught: " + error.message(),
                  "watch signals such as SIGINT and SIGTERM"};
    }
  }
  SignalWatcher(SignalWatcher const&) = delete;
  auto operator=(SignalWatcher const&) -> SignalWatcher& = delete;
  ~SignalWatcher() {
    let_go();
    detail::SignalHandlers::give_back(*inbox_);
  }

  /// Waits for the next signal and gives its number; `std::nullopt` once the watcher is closed and has given all that
  /// it took. Signals that come meanwhile are counted for each number; numbers come in the order of the constructor's
  /// list.
  [[nodiscard]] auto next() -> std::optional<int> {
    while (true) {
      if (auto const signal = take()) return signal;
      if (closed_ && has_let_go_) return std::nullopt;
      if (closed_) {
        let_go();
        continue;
      }
      while (::sem_wait(&inbox_->wake_up) != 0) {
      }
    }
  }

  /// Waits until the watcher is closed, for at most `duration`; false if it is not.
  [[nodiscard]] auto closes_within(std::chrono::nanoseconds duration) -> bool {
    auto const until = std::chrono::steady_clock::now().time_since_epoch() + duration;
    auto const seconds = std::chrono::duration_cast<std::chrono::seconds>(until);
    ::timespec const deadline{seconds.count(), (until - seconds).count()};
    while (!closed_) {
      if (::sem_clockwait(&inbox_->wake_up, CLOCK_MONOTONIC, &deadline) != 0 && errno == ETIMEDOUT) break;
    }
    return closed_;
  }

  /// The `next` that waits, and each later one, gives what was taken, lets the signals go and then gives
  /// `std::nullopt`. Idempotent.
  void close() {
    closed_ = true;
    ::sem_post(&inbox_->wake_up);
  }

  /// This watcher takes no more signals. A signal that no other watcher takes does what it did before, but for echoes.
  /// Idempotent.
  void let_go() {
    if (std::exchange(has_let_go_, true)) return;
    for (auto const signal : signals_) detail::SignalHandlers::release(*inbox_, signal);
  }

  /// For this long, from now on, `signal` has no effect once no watcher has it: it is an echo of one that was taken.
  static void drop_echoes(int signal, std::chrono::nanoseconds duration) {
    detail::SignalHandlers::drop_echoes(signal, duration);
  }

 private:
  [[nodiscard]] auto take() -> std::optional<int> {
    for (auto const signal : signals_) {
      auto& pending = inbox_->pending.at(static_cast<std::size_t>(signal));
      if (pending == 0) continue;
      --pending;
      return signal;
    }
    return std::nullopt;
  }

  detail::SignalInbox* inbox_;
  std::vector<int> signals_;
  bool has_let_go_ = false;
  std::atomic<bool> closed_{false};
};

}  // namespace raytrain
