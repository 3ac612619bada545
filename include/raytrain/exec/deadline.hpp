// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include <asio/awaitable.hpp>

#include <raytrain/core/clock.hpp>
#include <raytrain/exec/executor.hpp>
#include <raytrain/exec/scope.hpp>
#include <raytrain/exec/timer.hpp>

namespace raytrain {
namespace detail {

inline auto work_then_cancel(asio::awaitable<void> work, Timer& timer, bool& finished) -> asio::awaitable<void> {
  co_await std::move(work);
  finished = true;
  timer.cancel();
}

inline auto cancel_at(Timer& timer, Clock::TimePoint deadline, Scope& scope) -> asio::awaitable<void> {
  if (bool const reached = co_await timer.wait_until(deadline); reached) scope.cancel();
}

}  // namespace detail

/// Runs `work` to its end, or cancels it when the executor's clock reaches `deadline` first; whether it has finished.
/// What it throws before the deadline is passed on.
///
/// Cancel: terminal; cancels `work`, waits for it, then throws `std::system_error`.
[[nodiscard("co_await the result")]] inline auto finish_by(Executor& executor, Clock::TimePoint deadline,
                                                           asio::awaitable<void> work) -> asio::awaitable<bool> {
  Timer timer{executor};
  bool finished = false;
  Scope scope{executor};
  scope.spawn(detail::cancel_at(timer, deadline, scope));
  scope.spawn(detail::work_then_cancel(std::move(work), timer, finished));
  co_await scope.join();
  co_return finished;
}

}  // namespace raytrain
