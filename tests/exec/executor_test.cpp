// SPDX-License-Identifier: Apache-2.0
#include <raytrain/exec/executor.hpp>

#include <sys/resource.h>

#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include <doctest/doctest.h>
#include <asio/awaitable.hpp>
#include <asio/post.hpp>

#include <raytrain/core/clock.hpp>
#include <raytrain/exec/channel.hpp>
#include <raytrain/exec/scope.hpp>
#include <raytrain/exec/timer.hpp>
#include <raytrain/testing/manual_clock.hpp>

using namespace std::chrono_literals;

// In no unnamed namespace: where its file is compiled with others, g++ would warn of it in the frame of a coroutine.
struct NotDefaultConstructible {
  explicit NotDefaultConstructible(std::unique_ptr<int> value_) : value{std::move(value_)} {}
  std::unique_ptr<int> value;
};

namespace {

auto make_value() -> asio::awaitable<NotDefaultConstructible> {
  co_return NotDefaultConstructible{std::make_unique<int>(7)};
}

auto fail_with(std::string text) -> asio::awaitable<int> {
  throw std::runtime_error{text};
  co_return 0;
}

auto note_thread(raytrain::Executor& executor, std::thread::id& id, bool& here) -> asio::awaitable<void> {
  id = std::this_thread::get_id();
  here = executor.runs_here();
  co_return;
}

auto run_inside(raytrain::Executor& executor, std::string& text) -> asio::awaitable<void> {
  try {
    executor.run(make_value());
  } catch (raytrain::Error const& error) {
    text = error.what();
  }
  co_return;
}

auto wait_for(raytrain::Executor& executor, std::chrono::milliseconds duration) -> asio::awaitable<void> {
  raytrain::Timer timer{executor};
  co_await timer.wait_until(executor.clock().now() + duration);
}

auto count_messages(raytrain::Channel<int>& channel, int& count) -> asio::awaitable<void> {
  while (auto const message = co_await channel.receive()) ++count;
}

/// Exact, unlike a look from outside, which may come between a handler and its being counted.
auto count_on_its_thread(raytrain::Executor& executor) -> std::uint64_t {
  std::promise<std::uint64_t> count;
  asio::post(executor.context(), [&count, &executor] { count.set_value(executor.wake_ups()); });
  return count.get_future().get();
}

auto voluntary_switches() -> long {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nvcsw;
}

}  // namespace

TEST_CASE("run gives back the coroutine's value, also one that can only be moved") {
  raytrain::SystemClock clock;
  raytrain::Executor executor{clock};
  CHECK(*executor.run(make_value()).value == 7);
  CHECK(*executor.run(make_value()).value == 7);
}

TEST_CASE("run throws what the coroutine threw, and the executor can run again") {
  raytrain::SystemClock clock;
  raytrain::Executor executor{clock};
  CHECK_THROWS_WITH_AS(executor.run(fail_with("lost")), "lost", std::runtime_error);
  CHECK(*executor.run(make_value()).value == 7);
}

TEST_CASE("a coroutine runs on the thread that called run, and only there the executor says that it runs") {
  raytrain::SystemClock clock;
  raytrain::Executor executor{clock};
  std::thread::id id;
  bool here = false;
  executor.run(note_thread(executor, id, here));
  CHECK(id == std::this_thread::get_id());
  CHECK(here);
  CHECK_FALSE(executor.runs_here());
}

TEST_CASE("run inside run is refused with a message that says what to do") {
  raytrain::SystemClock clock;
  raytrain::Executor executor{clock};
  std::string text;
  executor.run(run_inside(executor, text));
  CHECK(text == "Executor::run: this executor runs already; spawn further coroutines in a Scope");
}

TEST_CASE("a wait of 100 ms costs as many wake-ups as one of 1 ms, and the thread sleeps all the while") {
  raytrain::SystemClock clock;
  raytrain::Executor executor{clock};
  executor.run(wait_for(executor, 1ms));
  auto const before = executor.wake_ups();
  executor.run(wait_for(executor, 1ms));
  auto const for_short = executor.wake_ups() - before;
  auto const switches_before = voluntary_switches();
  executor.run(wait_for(executor, 100ms));
  CHECK(executor.wake_ups() - before == 2 * for_short);
  CHECK(for_short <= 4);
  CHECK(voluntary_switches() - switches_before <= 5);
}

TEST_CASE("while a consumer waits and a deadline is armed, an hour goes by without a wake-up") {
  raytrain::testing::ManualClock clock;
  raytrain::Executor executor{clock};
  raytrain::Channel<int> channel{executor, 4};
  raytrain::Scope scope{executor};
  int count = 0;
  scope.spawn(count_messages(channel, count));
  scope.spawn(wait_for(executor, 2h));
  std::uint64_t before = 0;
  std::uint64_t after = 0;
  std::thread outside{[&] {
    auto const deadline = clock.wait_for_alarm();
    channel.send(1);
    before = count_on_its_thread(executor);
    for (int minute = 0; minute < 60; ++minute) clock.advance(1min);
    after = count_on_its_thread(executor);
    channel.close();
    clock.advance(deadline - clock.now());
  }};
  executor.run(scope.join());
  outside.join();
  CHECK(count == 1);
  CHECK(after - before == 1);  // the first look itself
}
