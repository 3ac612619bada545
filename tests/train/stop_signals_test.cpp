// SPDX-License-Identifier: Apache-2.0
#include <raytrain/train/stop_signals.hpp>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <asio/awaitable.hpp>
#include <asio/post.hpp>
#include <asio/use_awaitable.hpp>

#include <raytrain/exec/executor.hpp>
#include <raytrain/exec/scope.hpp>
#include <raytrain/exec/signals.hpp>
#include <raytrain/testing/manual_clock.hpp>

namespace {

using namespace std::chrono_literals;
using raytrain::Executor;
using raytrain::Scope;
using raytrain::SignalWatcher;
using raytrain::detail::StopSignals;
using raytrain::testing::ManualClock;

auto yield() -> asio::awaitable<void> {
  for (int time = 0; time < 8; ++time) co_await asio::post(asio::use_awaitable);
}

// Signals with times between them: what was requested after each.
struct Sent {
  int signal = 0;
  std::chrono::milliseconds later{};
};

auto send(Executor& executor, ManualClock& clock, std::vector<Sent> sent, std::vector<std::uint32_t>& requested)
    -> asio::awaitable<void> {
  std::optional<StopSignals> signals;
  Scope scope{executor};
  signals.emplace(executor, scope, [&](std::uint32_t times) { requested.push_back(times); });
  co_await yield();
  for (auto const& next : sent) {
    clock.advance(next.later);
    std::raise(next.signal);
    co_await yield();
  }
  scope.cancel();
  co_await scope.join();
}

auto requests(std::vector<Sent> sent) -> std::vector<std::uint32_t> {
  ManualClock clock;
  Executor executor{clock};
  std::vector<std::uint32_t> requested;
  executor.run(send(executor, clock, std::move(sent), requested));
  return requested;
}

std::sig_atomic_t volatile heard = 0;

// How often two signals behind the watching have reached the handler from before it.
auto echoes_after(int signal, std::chrono::nanoseconds echo) -> int {
  struct sigaction before {};
  struct sigaction counting {};
  counting.sa_handler = [](int) { heard = heard + 1; };
  sigaction(signal, &counting, &before);
  heard = 0;
  {
    ManualClock clock;
    Executor executor{clock};
    SignalWatcher const watcher{executor, {signal}};
    SignalWatcher::drop_echoes(signal, echo);
    SignalWatcher::drop_echoes(signal, echo);
  }
  std::raise(signal);
  std::raise(signal);
  auto const count = static_cast<int>(heard);
  sigaction(signal, &before, nullptr);
  return count;
}

}  // namespace

TEST_CASE("SIGTERM that follows another one within a second is the same request, and a later one is the second") {
  CHECK(requests({{SIGTERM, 0ms}, {SIGTERM, 0ms}, {SIGTERM, 999ms}}) == std::vector<std::uint32_t>{1});
  CHECK(requests({{SIGTERM, 0ms}, {SIGTERM, 1s}}) == std::vector<std::uint32_t>{1, 2});
}

TEST_CASE("each SIGINT counts, as somebody presses Ctrl-C") {
  CHECK(requests({{SIGINT, 0ms}, {SIGINT, 0ms}}) == std::vector<std::uint32_t>{1, 2});
  CHECK(requests({{SIGTERM, 0ms}, {SIGINT, 0ms}, {SIGTERM, 0ms}}) == std::vector<std::uint32_t>{1, 1});
}

TEST_CASE("SIGHUP stops a run as SIGTERM does") {
  std::signal(SIGHUP, SIG_DFL);  // which nohup has ignored
  CHECK(requests({{SIGHUP, 0ms}, {SIGHUP, 999ms}, {SIGHUP, 1s}}) == std::vector<std::uint32_t>{1, 2});
  CHECK(requests({{SIGHUP, 0ms}, {SIGTERM, 0ms}}) == std::vector<std::uint32_t>{1, 1});
}

TEST_CASE(
    "echoes of a signal are dropped when nobody watches any more, and what comes later finds the handler from before") {
  CHECK(echoes_after(SIGTERM, 1h) == 0);
  CHECK(echoes_after(SIGTERM, 0ns) == 2);
  CHECK(echoes_after(SIGHUP, 1h) == 0);
}

TEST_CASE("a signal that ended no run does what it did before") {
  std::signal(SIGTERM, SIG_DFL);  // which earlier cases have not left alone
  CHECK(requests({{SIGINT, 0ms}}) == std::vector<std::uint32_t>{1});
  struct sigaction after {};
  sigaction(SIGTERM, nullptr, &after);
  auto const is_default = after.sa_handler == SIG_DFL;
  CHECK(is_default);
}
