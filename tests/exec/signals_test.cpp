// SPDX-License-Identifier: Apache-2.0
#include <raytrain/exec/signals.hpp>

#include <signal.h>

#include <algorithm>
#include <csignal>
#include <initializer_list>
#include <optional>
#include <vector>

#include <doctest/doctest.h>
#include <asio/awaitable.hpp>
#include <asio/post.hpp>
#include <asio/use_awaitable.hpp>

#include <raytrain/core/clock.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/exec/executor.hpp>
#include <raytrain/exec/scope.hpp>

namespace {

using raytrain::Executor;
using raytrain::Scope;
using raytrain::SignalWatcher;
using raytrain::SystemClock;

volatile std::sig_atomic_t handled = 0;
void count_signal(int) { handled = handled + 1; }

auto take(SignalWatcher& watcher, std::vector<int>& seen, int count) -> asio::awaitable<void> {
  for (int taken = 0; taken < count; ++taken) {
    int const signal = co_await watcher.next();
    seen.push_back(signal);
  }
}

auto yield() -> asio::awaitable<void> {
  for (int time = 0; time < 8; ++time) co_await asio::post(asio::use_awaitable);
}

auto raise_later(int signal) -> asio::awaitable<void> {
  co_await yield();
  std::raise(signal);
}

auto cancel_later(Scope& scope) -> asio::awaitable<void> {
  co_await yield();
  scope.cancel();
}

auto cancel_and_take(Scope& scope, SignalWatcher& watcher, std::vector<int>& seen) -> asio::awaitable<void> {
  scope.cancel();
  co_await take(watcher, seen, 1);
}

auto is_handled_by(int signal, void (*handler)(int)) -> bool {
  struct sigaction action {};
  sigaction(signal, nullptr, &action);
  return action.sa_handler == handler;
}

}  // namespace

TEST_CASE("signals that come while nobody waits are kept, each kind in order of its own") {
  SystemClock clock;
  Executor executor{clock};
  SignalWatcher watcher{executor, {SIGUSR1, SIGUSR2}};
  std::raise(SIGUSR1);
  std::raise(SIGUSR2);
  std::raise(SIGUSR1);
  std::vector<int> seen;
  executor.run(take(watcher, seen, 3));
  std::sort(seen.begin(), seen.end());
  CHECK(seen == std::vector{SIGUSR1, SIGUSR1, SIGUSR2});
}

TEST_CASE("a coroutine that waits is told of a signal") {
  SystemClock clock;
  Executor executor{clock};
  SignalWatcher watcher{executor, {SIGUSR1}};
  Scope scope{executor};
  std::vector<int> seen;
  scope.spawn(take(watcher, seen, 1));
  scope.spawn(raise_later(SIGUSR1));
  executor.run(scope.join());
  CHECK(seen == std::vector{SIGUSR1});
}

TEST_CASE("a cancelled wait loses no signal") {
  SystemClock clock;
  Executor executor{clock};
  SignalWatcher watcher{executor, {SIGUSR1}};
  std::vector<int> seen;
  Scope scope{executor};
  scope.spawn(take(watcher, seen, 1));
  scope.spawn(cancel_later(scope));
  executor.run(scope.join());
  CHECK(seen.empty());
  std::raise(SIGUSR1);
  executor.run(take(watcher, seen, 1));
  CHECK(seen == std::vector{SIGUSR1});
}

TEST_CASE("a coroutine that was cancelled before does not wait for a signal") {
  SystemClock clock;
  Executor executor{clock};
  SignalWatcher watcher{executor, {SIGUSR1}};
  std::vector<int> seen;
  Scope scope{executor};
  scope.spawn(cancel_and_take(scope, watcher, seen));
  executor.run(scope.join());
  CHECK(seen.empty());
}

TEST_CASE("while a signal is watched the program's own handler rests, and afterwards it is back") {
  handled = 0;
  auto const before = std::signal(SIGUSR1, count_signal);
  {
    SystemClock clock;
    Executor executor{clock};
    SignalWatcher outer{executor, {SIGUSR1}};
    {
      SignalWatcher inner{executor, {SIGUSR1}};
      std::raise(SIGUSR1);
    }
    CHECK_FALSE(is_handled_by(SIGUSR1, count_signal));
    std::raise(SIGUSR1);
    CHECK(handled == 0);
    std::vector<int> seen;
    executor.run(take(outer, seen, 2));
    CHECK(seen.size() == 2);
  }
  CHECK(is_handled_by(SIGUSR1, count_signal));
  std::raise(SIGUSR1);
  CHECK(handled == 1);
  std::signal(SIGUSR1, before);
}

TEST_CASE("watchers of one signal may end in any order") {
  auto const before = std::signal(SIGUSR1, count_signal);
  {
    SystemClock clock;
    Executor executor{clock};
    std::optional<SignalWatcher> first;
    first.emplace(executor, std::initializer_list<int>{SIGUSR1});
    SignalWatcher second{executor, {SIGUSR1}};
    first.reset();
    CHECK_FALSE(is_handled_by(SIGUSR1, count_signal));
    std::raise(SIGUSR1);
    std::vector<int> seen;
    executor.run(take(second, seen, 1));
    CHECK(seen == std::vector{SIGUSR1});
  }
  CHECK(is_handled_by(SIGUSR1, count_signal));
  std::signal(SIGUSR1, before);
}

TEST_CASE("a signal that cannot be caught is refused, and none of the others stays watched") {
  SystemClock clock;
  Executor executor{clock};
  auto const before = std::signal(SIGUSR1, count_signal);
  CHECK_THROWS_WITH_AS((SignalWatcher{executor, {SIGUSR1, SIGKILL}}),
                       "SignalWatcher: signal 9 cannot be caught: Invalid argument; watch signals such as SIGINT and "
                       "SIGTERM",
                       raytrain::Error);
  CHECK(is_handled_by(SIGUSR1, count_signal));
  std::signal(SIGUSR1, before);
}
