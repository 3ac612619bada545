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
#include <raytrain/testing/manual_clock.hpp>

namespace {

using namespace std::chrono_literals;
using raytrain::Executor;
using raytrain::Scope;
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

auto note_end(StopSignals& signals, bool& settled) -> asio::awaitable<void> {
  co_await signals.settle();
  settled = true;
}

// Whether it has settled at once, just before the time is over, and then; another signal comes in between.
auto settle_after(Executor& executor, ManualClock& clock, int signal, std::vector<bool>& seen)
    -> asio::awaitable<void> {
  std::optional<StopSignals> signals;
  Scope scope{executor};
  signals.emplace(executor, scope, [](std::uint32_t) {});
  co_await yield();
  std::raise(signal);
  co_await yield();
  auto settled = false;
  scope.spawn(note_end(*signals, settled));
  for (std::chrono::milliseconds const later : {0ms, 999ms, 1ms}) {
    clock.advance(later);
    co_await yield();
    seen.push_back(settled);
    if (!settled) std::raise(signal);
  }
  scope.cancel();
  co_await scope.join();
}

auto settled_after(int signal) -> std::vector<bool> {
  ManualClock clock;
  Executor executor{clock};
  std::vector<bool> seen;
  executor.run(settle_after(executor, clock, signal, seen));
  return seen;
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

TEST_CASE("after SIGTERM, and only then, signals are watched until no echo of it is to be expected") {
  CHECK(settled_after(SIGTERM) == std::vector<bool>{false, false, true});
  CHECK(settled_after(SIGINT) == std::vector<bool>{true, true, true});
}
