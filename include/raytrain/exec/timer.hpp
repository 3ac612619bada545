// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include <asio/awaitable.hpp>
#include <asio/steady_timer.hpp>

#include <raytrain/core/clock.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/exec/detail/event.hpp>
#include <raytrain/exec/executor.hpp>

namespace raytrain {

/// Waits for a time of the executor's clock.
///
/// Threads: the executor's.
/// Cancel:  terminal, of `wait_until`.
class Timer {
 public:
  explicit Timer(Executor& executor) : executor_{executor}, due_{executor.context()}, timer_{executor.context()} {}
  Timer(Timer const&) = delete;
  auto operator=(Timer const&) -> Timer& = delete;

  /// True when the clock has reached `deadline`, false when `cancel` was called before it went on.
  ///
  /// Cancel: terminal; throws `std::system_error`.
  /// Errors: `invalid_call` while another coroutine waits in it.
  [[nodiscard("co_await the result")]] auto wait_until(Clock::TimePoint deadline) -> asio::awaitable<bool> {
    if (due_.has_sleeper()) {
      throw Error{Errc::invalid_call, "Timer::wait_until", "another coroutine waits in it",
                  "use one Timer for each coroutine"};
    }
    cancelled_ = false;
    while (executor_.clock().now() < deadline) {
      Armed const armed{*this, deadline};
      co_await due_.wait();
      if (cancelled_) co_return false;
    }
    co_return true;
  }

  /// Ends a wait; without one it has no effect.
  void cancel();

 private:
  /// What will tell of the deadline, for as long as somebody waits for it.
  class Armed {
   public:
    Armed(Timer& timer, Clock::TimePoint deadline);
    Armed(Armed const&) = delete;
    auto operator=(Armed const&) -> Armed& = delete;
    ~Armed();

   private:
    Timer& timer_;
    std::optional<std::uint64_t> alarm_;
  };

  Executor& executor_;
  detail::Event due_;
  asio::steady_timer timer_;
  bool cancelled_ = false;
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/exec/timer-inl.hpp>
#endif
