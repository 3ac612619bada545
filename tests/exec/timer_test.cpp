// SPDX-License-Identifier: Apache-2.0
#include <raytrain/exec/timer.hpp>

#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <asio/awaitable.hpp>
#include <asio/post.hpp>
#include <asio/use_awaitable.hpp>

#include <raytrain/core/clock.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/exec/executor.hpp>
#include <raytrain/exec/scope.hpp>
#include <raytrain/testing/manual_clock.hpp>

using namespace std::chrono_literals;

namespace {

using raytrain::Clock;
using raytrain::Executor;
using raytrain::Scope;
using raytrain::SystemClock;
using raytrain::Timer;
using raytrain::testing::ManualClock;
using Log = std::vector<std::string>;

auto log_at(Executor& executor, Clock::TimePoint deadline, std::string text, Log& log) -> asio::awaitable<void> {
  Timer timer{executor};
  bool const reached = co_await timer.wait_until(deadline);
  log.push_back(text + (reached ? " reached" : " cancelled"));
}

auto use(Timer& timer, Clock::TimePoint deadline, Log& log) -> asio::awaitable<void> {
  bool const reached = co_await timer.wait_until(deadline);
  log.push_back(reached ? "reached" : "cancelled");
}

auto yield() -> asio::awaitable<void> {
  for (int time = 0; time < 8; ++time) co_await asio::post(asio::use_awaitable);
}

/// Moves the clock from the executor's own thread, and logs each step after everything due has run.
auto move(ManualClock& clock, std::vector<Clock::Duration> steps, Log& log) -> asio::awaitable<void> {
  co_await yield();
  for (auto const step : steps) {
    clock.advance(step);
    co_await yield();
    log.push_back("step");
  }
}

}  // namespace

TEST_CASE("a timer goes on when the clock reaches its deadline, and not a nanosecond earlier") {
  ManualClock clock;
  Executor executor{clock};
  Scope scope{executor};
  Log log;
  scope.spawn(log_at(executor, clock.now() + 10s, "timer", log));
  std::vector<Clock::Duration> steps{10s - 1ns, 1ns};
  scope.spawn(move(clock, std::move(steps), log));
  executor.run(scope.join());
  CHECK(log == Log{"step", "timer reached", "step"});
}

TEST_CASE("timers go on in the order of their deadlines, also when the clock jumps over all of them") {
  ManualClock clock;
  Executor executor{clock};
  Scope scope{executor};
  Log log;
  for (int second : {3, 1, 2}) {
    scope.spawn(log_at(executor, clock.now() + std::chrono::seconds{second}, std::to_string(second), log));
  }
  std::vector<Clock::Duration> steps{1h};
  scope.spawn(move(clock, std::move(steps), log));
  executor.run(scope.join());
  CHECK(log == Log{"1 reached", "2 reached", "3 reached", "step"});
}

TEST_CASE("a deadline that has passed is reached at once, without an alarm") {
  ManualClock clock;
  Executor executor{clock};
  Log log;
  executor.run(log_at(executor, clock.now(), "now", log));
  executor.run(log_at(executor, clock.now() - 1s, "past", log));
  CHECK(log == Log{"now reached", "past reached"});
  CHECK_FALSE(clock.next_alarm().has_value());
}

namespace {

auto cancel(Timer& timer) -> asio::awaitable<void> {
  co_await yield();
  timer.cancel();
}

auto cancel_scope(Scope& scope) -> asio::awaitable<void> {
  co_await yield();
  scope.cancel();
}

auto cancel_due_timer(ManualClock& clock, Timer& timer) -> asio::awaitable<void> {
  co_await yield();
  clock.advance(1h);
  timer.cancel();
}

}  // namespace

TEST_CASE("cancel ends a wait and disarms the deadline, and has no effect on a wait that begins afterwards") {
  ManualClock clock;
  Executor executor{clock};
  Timer timer{executor};
  Log log;
  Scope scope{executor};
  scope.spawn(use(timer, clock.now() + 1s, log));
  scope.spawn(cancel(timer));
  executor.run(scope.join());
  CHECK(log == Log{"cancelled"});
  CHECK_FALSE(clock.next_alarm().has_value());

  timer.cancel();
  scope.spawn(use(timer, clock.now() + 1s, log));
  std::vector<Clock::Duration> steps{1s};
  scope.spawn(move(clock, std::move(steps), log));
  executor.run(scope.join());
  CHECK(log == Log{"cancelled", "reached", "step"});
}

TEST_CASE("a timer that was cancelled does not report its deadline, even if that came first") {
  ManualClock clock;
  Executor executor{clock};
  Timer timer{executor};
  Log log;
  Scope scope{executor};
  scope.spawn(use(timer, clock.now() + 1s, log));
  scope.spawn(cancel_due_timer(clock, timer));
  executor.run(scope.join());
  CHECK(log == Log{"cancelled"});
}

TEST_CASE("a cancelled scope ends a wait by an exception, and the deadline is disarmed") {
  ManualClock clock;
  Executor executor{clock};
  Log log;
  Scope scope{executor};
  scope.spawn(log_at(executor, clock.now() + 1s, "timer", log));
  scope.spawn(cancel_scope(scope));
  executor.run(scope.join());
  CHECK(log.empty());
  CHECK_FALSE(clock.next_alarm().has_value());
}

TEST_CASE("a second coroutine that waits in one timer is refused") {
  ManualClock clock;
  Executor executor{clock};
  Timer timer{executor};
  Log log;
  Scope scope{executor};
  scope.spawn(use(timer, clock.now() + 1s, log));
  scope.spawn(use(timer, clock.now() + 2s, log));
  CHECK_THROWS_WITH_AS(executor.run(scope.join()),
                       "Timer::wait_until: another coroutine waits in it; use one Timer for each coroutine",
                       raytrain::Error);
}

TEST_CASE("another thread that moves the clock wakes the executor") {
  ManualClock clock;
  Executor executor{clock};
  Log log;
  std::thread mover{[&clock] { clock.advance(clock.wait_for_alarm() - clock.now()); }};
  executor.run(log_at(executor, clock.now() + 24h, "timer", log));
  mover.join();
  CHECK(log == Log{"timer reached"});
}

TEST_CASE("a manual clock refuses to go back, and moves the time of day along") {
  ManualClock clock;
  auto const wall = clock.wall_now();
  clock.advance(3s);
  CHECK(clock.wall_now() - wall == 3s);
  CHECK_THROWS_WITH_AS(clock.advance(-1ns), "ManualClock::advance: the duration is negative; a clock never goes back",
                       raytrain::Error);
}

TEST_CASE("on the operating system's clock a deadline is reached, never early") {
  SystemClock clock;
  Executor executor{clock};
  Log log;
  for (auto const wait : {0us, 50us, 3000us}) {
    auto const deadline = clock.now() + wait;
    executor.run(log_at(executor, deadline, "timer", log));
    CHECK(clock.now() >= deadline);
  }
  CHECK(log == Log{"timer reached", "timer reached", "timer reached"});
}

TEST_CASE("on the operating system's clock a wait without end can be cancelled") {
  SystemClock clock;
  Executor executor{clock};
  Timer timer{executor};
  Log log;
  Scope scope{executor};
  scope.spawn(use(timer, Clock::TimePoint::max(), log));
  scope.spawn(log_at(executor, Clock::TimePoint::max(), "other", log));
  scope.spawn(cancel(timer));
  scope.spawn(cancel_scope(scope));
  executor.run(scope.join());
  CHECK(log == Log{"cancelled"});
  executor.context().poll();
  CHECK(executor.context().stopped());  // nothing is armed any more
}
