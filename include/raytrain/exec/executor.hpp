// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <asio/awaitable.hpp>
#include <asio/bind_cancellation_slot.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <type_traits>
#include <utility>

#include <raytrain/core/clock.hpp>

namespace raytrain::detail {

/// A clock that moves only when somebody moves it, and therefore has to say itself when a time is reached.
///
/// Threads: every function from any thread.
class AlarmClock : public Clock {
 public:
  /// Calls `ring` once: when the clock is moved to `time` or beyond, on the thread that moves it, or at once if it is
  /// there already. `ring` must not call this clock.
  [[nodiscard]] virtual auto set_alarm(TimePoint time, std::function<void()> ring) -> std::uint64_t = 0;

  /// Afterwards that alarm does not ring and is not ringing.
  virtual void drop_alarm(std::uint64_t alarm) noexcept = 0;
};

}  // namespace raytrain::detail

namespace raytrain {

/// Runs coroutines, one at a time, on the thread that calls `run`, and sleeps while none can go on.
///
/// Threads: `clock`, `context`, `runs_here` and `wake_ups` from any thread; `run` from one thread at a time. Whatever
///          posts to `context()` from another thread has ended before the executor does.
/// Cancel:  `run` ends with its coroutine and by nothing else; see `Scope` for what can be cancelled.
class Executor {
 public:
  /// `clock` is what every `Timer` of this executor goes by, and outlives it.
  explicit Executor(Clock& clock) : clock_{clock}, alarm_clock_{dynamic_cast<detail::AlarmClock*>(&clock)} {}
  Executor(Executor const&) = delete;
  auto operator=(Executor const&) -> Executor& = delete;

  /// Drives `main`, and whatever it starts, until it is complete, and passes on its result or its exception.
  ///
  /// Errors: `invalid_call` when this executor runs already.
  template <class T>
  auto run(asio::awaitable<T> main) -> T {
    if constexpr (std::is_void_v<T>) {
      drive(std::move(main));
    } else {
      std::optional<T> result;
      drive(keep(std::move(main), result));
      return std::move(*result);
    }
  }

  [[nodiscard]] auto clock() const noexcept -> Clock& { return clock_; }
  [[nodiscard]] auto context() noexcept -> asio::io_context& { return context_; }

  /// Whether the calling thread is the one that runs this executor's coroutines at present.
  [[nodiscard]] auto runs_here() noexcept -> bool { return context_.get_executor().running_in_this_thread(); }

  /// How often the executor's thread had something to do since construction; it stands still while nothing happens.
  [[nodiscard]] auto wake_ups() const noexcept -> std::uint64_t { return wake_ups_.load(std::memory_order_relaxed); }

  /// The clock if it is one that has to be asked for alarms, else null.
  [[nodiscard]] auto alarm_clock() const noexcept -> detail::AlarmClock* { return alarm_clock_; }

  /// Starts a coroutine that is cancelled through `slot`, and calls `on_end` with what it threw. For `Scope`.
  void start(asio::awaitable<void> coroutine, asio::cancellation_slot slot,
             std::function<void(std::exception_ptr)> on_end);

 private:
  template <class T>
  static auto keep(asio::awaitable<T> main, std::optional<T>& result) -> asio::awaitable<void> {
    T value = co_await std::move(main);
    result.emplace(std::move(value));
  }

  void drive(asio::awaitable<void> main);

  Clock& clock_;
  detail::AlarmClock* alarm_clock_;
  asio::io_context context_{1};
  std::atomic<std::uint64_t> wake_ups_{0};
  std::atomic<bool> running_{false};
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/exec/executor-inl.hpp>
#endif
