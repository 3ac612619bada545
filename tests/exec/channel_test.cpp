// SPDX-License-Identifier: Apache-2.0
#include <raytrain/exec/channel.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
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
#include <raytrain/testing/random_seed.hpp>

using raytrain::testing::random_seed;

namespace {

using raytrain::Channel;
using raytrain::Executor;
using raytrain::Scope;
using raytrain::SystemClock;

struct Numbered {
  Numbered(std::size_t producer_, int number_)
      : producer{producer_}, number{number_}, text(static_cast<std::size_t>(number_ % 40), 'x') {}
  std::size_t producer;
  int number;
  std::string text;  // so that a message destroyed twice or read after its end is noticed
};

/// What has arrived, and whether each producer's messages came in order and whole.
struct Arrivals {
  explicit Arrivals(std::size_t producers) : next(producers, 0) {}

  void add(Numbered const& message) {
    in_order = in_order && message.number == next[message.producer];
    whole = whole && message.text.size() == static_cast<std::size_t>(message.number % 40);
    next[message.producer] = message.number + 1;
    ++total;
  }

  std::vector<int> next;
  std::atomic<int> total{0};
  bool in_order = true;
  bool whole = true;
};

using Random = std::mt19937_64;

/// Sends `count` messages by a random mix of all ways to send.
void produce(Channel<Numbered>& channel, std::size_t producer, int count, std::uint64_t seed) {
  Random random{seed};
  for (int number = 0; number < count; ++number) {
    Numbered message{producer, number};
    auto const way = random() % 8;
    if (way == 0) {
      channel.push(std::move(message));
    } else if (way > 3 || !channel.try_send(message)) {
      channel.send(std::move(message));
    }
  }
}

/// Receives by a random mix of both ways to receive.
auto take(Channel<Numbered>& channel, Arrivals& arrivals, std::uint64_t seed) -> asio::awaitable<void> {
  Random random{seed};
  while (auto message = co_await channel.receive()) {
    arrivals.add(*message);
    for (auto more = random() % 8; more > 0 && (message = channel.try_receive()); --more) arrivals.add(*message);
    if (random() % 16 == 0) co_await asio::post(asio::use_awaitable);
  }
}

auto receive_all(Channel<int>& channel) -> asio::awaitable<std::vector<int>> {
  std::vector<int> all;
  while (auto message = co_await channel.receive()) all.push_back(*message);
  co_return all;
}

auto receive_into(Channel<int>& channel, std::vector<int>& all) -> asio::awaitable<void> {
  while (auto message = co_await channel.receive()) all.push_back(*message);
}

}  // namespace

TEST_CASE("messages of many producers all arrive, and those of each producer in order") {
  auto const seed = random_seed();
  Random random{seed};
  for (int round = 0; round < 30; ++round) {
    SystemClock clock;
    Executor executor{clock};
    auto const producers = 1 + random() % 6;
    auto const count = static_cast<int>(random() % 2000);
    Channel<Numbered> channel{executor, 1 + random() % 64};
    Arrivals arrivals{producers};
    std::vector<std::thread> threads;
    for (std::size_t producer = 0; producer < producers; ++producer) {
      threads.emplace_back(produce, std::ref(channel), producer, count, random());
    }
    std::thread closer{[&threads, &channel] {
      for (auto& thread : threads) thread.join();
      channel.close();
    }};
    executor.run(take(channel, arrivals, random()));
    closer.join();
    CHECK(arrivals.in_order);
    CHECK(arrivals.whole);
    CHECK(arrivals.total == static_cast<int>(producers) * count);
  }
}

namespace {

/// Cancels the consumer again and again, at points that the seed decides, and goes on with a new one.
auto take_and_be_cancelled(Executor& executor, Channel<Numbered>& channel, Arrivals& arrivals, int expected,
                           std::uint64_t seed, int& cancellations) -> asio::awaitable<void> {
  Random random{seed};
  while (arrivals.total < expected) {
    Scope scope{executor};
    scope.spawn(take(channel, arrivals, random()));
    for (auto turns = random() % 8; turns > 0; --turns) co_await asio::post(asio::use_awaitable);
    scope.cancel();
    ++cancellations;
    co_await scope.join();
  }
}

}  // namespace

TEST_CASE("a consumer that is cancelled again and again loses no message and no order") {
  auto const seed = random_seed();
  Random random{seed};
  for (int round = 0; round < 10; ++round) {
    SystemClock clock;
    Executor executor{clock};
    std::size_t const producers = 3;
    auto const count = static_cast<int>(500 + random() % 500);
    Channel<Numbered> channel{executor, 1 + random() % 16};
    Arrivals arrivals{producers};
    std::vector<std::thread> threads;
    for (std::size_t producer = 0; producer < producers; ++producer) {
      threads.emplace_back(produce, std::ref(channel), producer, count, random());
    }
    int cancellations = 0;
    auto const expected = static_cast<int>(producers) * count;
    executor.run(take_and_be_cancelled(executor, channel, arrivals, expected, random(), cancellations));
    for (auto& thread : threads) thread.join();
    CHECK(cancellations > 1);
    CHECK(arrivals.in_order);
    CHECK(arrivals.total == expected);
  }
}

TEST_CASE("messages sent before the close are received, and then there is none any more") {
  SystemClock clock;
  Executor executor{clock};
  Channel<int> channel{executor, 8};
  for (int number : {1, 2, 3}) CHECK(channel.send(number));
  channel.close();
  channel.close();
  int late = 4;
  CHECK_FALSE(channel.send(late));
  CHECK_FALSE(channel.try_send(late));
  CHECK_FALSE(channel.push(late));
  CHECK(executor.run(receive_all(channel)) == std::vector{1, 2, 3});
  CHECK(executor.run(receive_all(channel)).empty());
}

TEST_CASE("a close ends the wait of a consumer that has nothing to receive") {
  SystemClock clock;
  Executor executor{clock};
  Channel<int> channel{executor, 8};
  std::thread closer{[&channel] { channel.close(); }};
  CHECK(executor.run(receive_all(channel)).empty());
  closer.join();
}

TEST_CASE("a full channel refuses a message and leaves it whole; its senders wait until it is closed") {
  SystemClock clock;
  Executor executor{clock};
  Channel<std::unique_ptr<int>> channel{executor, 2};
  std::atomic<int> sent{0};
  std::vector<bool> accepted;
  std::thread producer{[&channel, &sent, &accepted] {
    for (int number = 0; number < 4; ++number) {
      accepted.push_back(channel.send(std::make_unique<int>(number)));
      ++sent;
      sent.notify_one();
    }
  }};
  for (int seen = sent; seen < 2; seen = sent) sent.wait(seen);
  auto message = std::make_unique<int>(9);
  CHECK_FALSE(channel.try_send(message));
  REQUIRE(message);
  CHECK(*message == 9);
  channel.close();
  producer.join();
  CHECK(accepted == std::vector{true, true, false, false});
}

namespace {

auto watch_backlog(Channel<int>& channel, std::atomic<int> const& sent, int& most) -> asio::awaitable<void> {
  int received = 0;
  while (auto const message = co_await channel.receive()) {
    most = std::max(most, sent.load() - ++received);
  }
}

}  // namespace

TEST_CASE("a fast producer is never ahead of the consumer by more than the capacity and one batch") {
  SystemClock clock;
  Executor executor{clock};
  int const capacity = 5;
  Channel<int> channel{executor, capacity};
  std::atomic<int> sent{0};
  std::thread producer{[&channel, &sent] {
    for (int number = 0; number < 5000; ++number) {
      channel.send(number);
      ++sent;
    }
    channel.close();
  }};
  int most = 0;
  executor.run(watch_backlog(channel, sent, most));
  producer.join();
  CHECK(most > 0);
  CHECK(most <= 2 * capacity);
}

namespace {

auto send_to_itself(Channel<int>& channel, std::string& text) -> asio::awaitable<void> {
  int number = 1;
  CHECK(channel.try_send(number));
  CHECK(channel.push(2));
  CHECK(channel.push(3));
  CHECK_FALSE(channel.try_send(number));
  try {
    channel.send(4);
  } catch (raytrain::Error const& error) {
    text = error.what();
  }
  channel.close();
  co_return;
}

}  // namespace

TEST_CASE("on the executor's own thread push goes beyond the capacity, and send is refused") {
  SystemClock clock;
  Executor executor{clock};
  Channel<int> channel{executor, 1};
  std::string text;
  executor.run(send_to_itself(channel, text));
  CHECK(text == "Channel::send: called on the executor's own thread, which must not wait; use push or try_send there");
  CHECK(executor.run(receive_all(channel)) == std::vector{1, 2, 3});
}

TEST_CASE("a second consumer is refused, and the first goes on") {
  SystemClock clock;
  Executor executor{clock};
  Channel<int> channel{executor, 1};
  Scope scope{executor};
  std::vector<int> all;
  scope.spawn(receive_into(channel, all));
  scope.spawn(receive_into(channel, all));
  CHECK_THROWS_WITH_AS(executor.run(scope.join()),
                       "Channel::receive: another coroutine waits in it; a channel has one consumer", raytrain::Error);
}

TEST_CASE("a channel without capacity is refused") {
  SystemClock clock;
  Executor executor{clock};
  CHECK_THROWS_WITH_AS((Channel<int>{executor, 0}),
                       "Channel: the capacity must be at least 1 (got 0); a message needs a place to wait",
                       raytrain::Error);
}

namespace {

auto receive_and_cancel(Channel<int>& channel, Scope& scope, std::vector<int>& all) -> asio::awaitable<void> {
  while (auto const message = co_await channel.receive()) {
    all.push_back(*message);
    scope.cancel();
  }
}

}  // namespace

TEST_CASE("a cancelled consumer receives nothing more, although messages wait, and the next one finds them") {
  SystemClock clock;
  Executor executor{clock};
  Channel<int> channel{executor, 3};
  for (int number : {1, 2, 3}) channel.push(number);
  std::vector<int> all;
  for (int consumer = 1; consumer <= 2; ++consumer) {
    Scope scope{executor};
    scope.spawn(receive_and_cancel(channel, scope, all));
    executor.run(scope.join());
    CHECK(all.size() == static_cast<std::size_t>(consumer));
  }
  channel.close();
  CHECK(executor.run(receive_all(channel)) == std::vector{3});
  CHECK(all == std::vector{1, 2});
}

TEST_CASE("a thousand messages that wait cost a few wake-ups, not one each") {
  SystemClock clock;
  Executor executor{clock};
  Channel<int> channel{executor, 1000};
  for (int number = 0; number < 1000; ++number) channel.send(number);
  channel.close();
  auto const before = executor.wake_ups();
  CHECK(executor.run(receive_all(channel)).size() == 1000);
  CHECK(executor.wake_ups() - before <= 6);
}

namespace {

auto receive_counting(Channel<int>& channel, int& count) -> asio::awaitable<void> {
  while (auto const message = co_await channel.receive()) ++count;
}

auto receive_all_at_hand(Channel<int>& channel, int& count) -> asio::awaitable<void> {
  while (auto message = co_await channel.receive()) {
    for (; message; message = channel.try_receive()) ++count;
  }
}

auto receive_one(Channel<int>& channel) -> asio::awaitable<int> {
  auto const message = co_await channel.receive();
  co_return message.value();
}

auto note_count(int const& count, int& seen) -> asio::awaitable<void> {
  co_await asio::post(asio::use_awaitable);
  seen = count;
}

}  // namespace

TEST_CASE("a flood of messages does not keep the executor's other coroutines waiting") {
  for (auto const consumer : {receive_counting, receive_all_at_hand}) {
    SystemClock clock;
    Executor executor{clock};
    Channel<int> channel{executor, 1};
    for (int number = 0; number < 100'000; ++number) channel.push(number);
    channel.close();
    Scope scope{executor};
    int count = 0;
    int seen = -1;
    scope.spawn(consumer(channel, count));
    scope.spawn(note_count(count, seen));
    executor.run(scope.join());
    CHECK(count == 100'000);
    CHECK(seen <= 512);
  }
}

TEST_CASE("nothing is received without a wait before the consumer has taken a first look") {
  SystemClock clock;
  Executor executor{clock};
  Channel<int> channel{executor, 2};
  channel.push(1);
  channel.push(2);
  CHECK_FALSE(channel.try_receive().has_value());
  CHECK(executor.run(receive_one(channel)) == 1);
  CHECK(channel.try_receive() == 2);
  CHECK_FALSE(channel.try_receive().has_value());
}

TEST_CASE("a channel may be destroyed as soon as its last message has been received") {
  SystemClock clock;
  Executor executor{clock};
  for (int round = 0; round < 300; ++round) {
    auto channel = std::make_unique<Channel<int>>(executor, 1);
    std::thread producer{[target = channel.get(), round] { target->send(round); }};
    CHECK(executor.run(receive_one(*channel)) == round);
    channel.reset();
    producer.join();
  }
}
