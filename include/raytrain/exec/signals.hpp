// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <vector>

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
  ///
  /// `ignored_sender`: a process whose signals are dropped while it watches; 0: none.
  explicit SignalWatcher(std::vector<int> const& signals, ::pid_t ignored_sender = 0);
  SignalWatcher(SignalWatcher const&) = delete;
  auto operator=(SignalWatcher const&) -> SignalWatcher& = delete;
  ~SignalWatcher();

  /// Those of `signals` that the program does not ignore.
  [[nodiscard]] static auto heeded(std::vector<int> const& signals) -> std::vector<int>;

  /// Waits for the next signal and gives its number; `std::nullopt` once the watcher is closed and has given all that
  /// it took. Signals that come meanwhile are counted for each number; numbers come in the order of the constructor's
  /// list.
  [[nodiscard]] auto next() -> std::optional<int>;

  /// Waits until the watcher is closed, for at most `duration`; false if it is not.
  [[nodiscard]] auto closes_within(std::chrono::nanoseconds duration) -> bool;

  /// The `next` that waits, and each later one, gives what was taken, lets the signals go and then gives
  /// `std::nullopt`. Idempotent.
  void close();

  /// This watcher takes no more signals. A signal that no other watcher takes does what it did before, but for echoes.
  /// Idempotent.
  void let_go();

  /// For this long, from now on, `signal` has no effect once no watcher has it: a second copy of a signal that was
  /// handled, as Slurm sends them, must not end the process.
  static void drop_echoes(int signal, std::chrono::nanoseconds duration);

 private:
  [[nodiscard]] auto take() -> std::optional<int>;

  detail::SignalInbox* inbox_;
  std::vector<int> signals_;
  bool has_let_go_ = false;
  std::atomic<bool> closed_{false};
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/exec/signals-inl.hpp>
#endif
