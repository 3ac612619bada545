// SPDX-License-Identifier: Apache-2.0
// Channel against asio::experimental::concurrent_channel: messages a second, what a send costs while the consumer is
// busy, and how long a message takes to a consumer that sleeps. Arguments: [--rounds N] [--quick]. Prints one JSON
// object; each row has the figure of every round in "values". A message that is lost or overtaken ends it with
// status 1.
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <future>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <asio/awaitable.hpp>
#include <asio/co_spawn.hpp>
#include <asio/experimental/concurrent_channel.hpp>
#include <asio/io_context.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/use_future.hpp>

#include <raytrain/core/clock.hpp>
#include <raytrain/core/usable_cores.hpp>
#include <raytrain/exec/channel.hpp>
#include <raytrain/exec/executor.hpp>

namespace {

constexpr std::size_t capacity = 1024;
constexpr std::int64_t burst = 1000;  // fits into the channel, so that no send waits

struct Sample {
  std::int64_t number = 0;
  std::int64_t sent_ns = 0;
};

auto now_ns() -> std::int64_t {
  return std::chrono::nanoseconds{std::chrono::steady_clock::now().time_since_epoch()}.count();
}

/// Binds the calling thread to a core of its own, as a worker has one: two threads that happen to share a core never
/// meet at a lock.
void pin(std::size_t which) {
  static std::vector<int> const cores = raytrain::usable_cores();  // asked before the first thread is bound
  if (which >= cores.size()) return;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cores[which], &one);
  sched_setaffinity(0, sizeof one, &one);
}

/// What the consumer does with a message: checks it, and what the measurement asks for.
struct Consumer {
  std::int64_t next = 0;
  std::vector<double>* latencies_ns = nullptr;      ///< Filled if there is one.
  std::atomic<std::int64_t>* busy_until = nullptr;  ///< If there is one: how far a burst keeps it busy.
  std::atomic<std::int64_t> received{0};

  void take(Sample const& sample) {
    if (latencies_ns != nullptr) latencies_ns->push_back(static_cast<double>(now_ns() - sample.sent_ns));
    if (sample.number != next) throw std::runtime_error{"message " + std::to_string(next) + " was lost or overtaken"};
    if (busy_until != nullptr && next % burst == 0) {
      while (busy_until->load(std::memory_order_acquire) < next + burst) {
      }
    }
    received.store(++next, std::memory_order_release);
  }
};

/// How a consumer receives: by the asynchronous call alone, or taking first what needs no wait.
enum class Receive { each, at_hand_first };

/// raytrain's side.
template <Receive how>
class Ours {
 public:
  void send(Sample const& sample) { channel_.send(sample); }

  template <class Produce>
  void run(Consumer& consumer, std::int64_t count, Produce const& produce) {
    std::thread producer{[&] { produce(*this); }};
    executor_.run(consume(channel_, consumer, count));
    producer.join();
  }

 private:
  static auto consume(raytrain::Channel<Sample>& channel, Consumer& consumer, std::int64_t count)
      -> asio::awaitable<void> {
    while (consumer.next < count) {
      auto sample = co_await channel.receive();
      consumer.take(sample.value());
      if constexpr (how == Receive::at_hand_first) {
        while ((sample = channel.try_receive())) consumer.take(*sample);
      }
    }
  }

  raytrain::SystemClock clock_;
  raytrain::Executor executor_{clock_};
  raytrain::Channel<Sample> channel_{executor_, capacity};
};

/// Asio's side: sends without waiting where it can, and else waits for a future.
template <Receive how>
class Twin {
 public:
  void send(Sample const& sample) {
    if (!channel_.try_send(std::error_code{}, sample)) {
      channel_.async_send(std::error_code{}, sample, asio::use_future).get();
    }
  }

  template <class Produce>
  void run(Consumer& consumer, std::int64_t count, Produce const& produce) {
    std::exception_ptr failure;
    asio::co_spawn(context_, consume(channel_, consumer, count),
                   [&failure](std::exception_ptr thrown) { failure = std::move(thrown); });
    std::thread producer{[&] { produce(*this); }};
    context_.restart();
    context_.run();
    producer.join();
    if (failure) std::rethrow_exception(failure);
  }

 private:
  using Channel =
      asio::experimental::concurrent_channel<asio::io_context::executor_type, void(std::error_code, Sample)>;

  static auto consume(Channel& channel, Consumer& consumer, std::int64_t count) -> asio::awaitable<void> {
    while (consumer.next < count) {
      if constexpr (how == Receive::at_hand_first) {
        bool const taken = channel.try_receive([&consumer](std::error_code, Sample sample) { consumer.take(sample); });
        if (taken) continue;
      }
      auto const sample = co_await channel.async_receive(asio::use_awaitable);
      consumer.take(sample);
    }
  }

  asio::io_context context_{1};
  Channel channel_{context_.get_executor(), capacity};
};

auto percentile(std::vector<double>& values, double share) -> double {
  auto const at = values.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

template <class Side>
auto flood(std::int64_t count) -> double {
  pin(0);
  Side side;
  Consumer consumer;
  std::int64_t start_ns = 0;
  side.run(consumer, count, [&](Side& line) {
    pin(1);
    start_ns = now_ns();
    for (std::int64_t number = 0; number < count; ++number) line.send(Sample{number, 0});
  });
  return static_cast<double>(count) * 1e9 / static_cast<double>(now_ns() - start_ns);
}

/// On threads of its own, so that what is measured next goes where the scheduler wants it.
template <class Side>
auto messages_per_second(std::int64_t count) -> double {
  return std::async(std::launch::async, flood<Side>, count).get();
}

template <class Side>
auto send_costs_ns(std::int64_t bursts) -> std::vector<double> {
  Side side;
  std::atomic<std::int64_t> busy_until{0};
  Consumer consumer;
  consumer.busy_until = &busy_until;
  std::vector<double> costs;
  costs.reserve(static_cast<std::size_t>(bursts * burst));
  side.run(consumer, bursts * burst, [&](Side& line) {
    for (std::int64_t number = 0; number < bursts * burst;) {
      line.send(Sample{number++, 0});  // wakes the consumer, which then is busy
      while (consumer.received.load(std::memory_order_acquire) + 1 < number) std::this_thread::yield();
      for (std::int64_t left = burst - 1; left > 0; --left) {
        auto const before = now_ns();
        line.send(Sample{number++, 0});
        costs.push_back(static_cast<double>(now_ns() - before));
      }
      busy_until.store(number, std::memory_order_release);
      while (consumer.received.load(std::memory_order_acquire) < number) std::this_thread::yield();
    }
  });
  return costs;
}

template <class Side>
auto latencies_ns(std::int64_t count) -> std::vector<double> {
  Side side;
  std::vector<double> latencies;
  latencies.reserve(static_cast<std::size_t>(count));
  Consumer consumer;
  consumer.latencies_ns = &latencies;
  side.run(consumer, count, [&](Side& line) {
    for (std::int64_t number = 0; number < count; ++number) {
      while (consumer.received.load(std::memory_order_acquire) < number) std::this_thread::yield();
      for (auto const asleep = now_ns() + 200'000; now_ns() < asleep;) {
      }
      line.send(Sample{number, now_ns()});
    }
  });
  return latencies;
}

/// One row of the result: the figure of each round.
struct Row {
  char const* scenario;
  char const* metric;
  bool higher = false;  ///< Whether a higher figure is the better one.
  std::optional<double> goal{};
  std::vector<double> values{};
};

void print(std::vector<Row>& rows) {
  std::printf("{\"benchmark\": \"channel\", \"rows\": [");
  char const* separator = "";
  for (auto& row : rows) {
    auto const [least, most] = std::minmax_element(row.values.begin(), row.values.end());
    double const worst = row.higher ? *least : *most;
    std::string values;
    for (double const value : row.values) values += (values.empty() ? "" : ", ") + std::to_string(value);
    double const median = percentile(row.values, 0.5);
    std::printf(
        "%s\n {\"case\": \"%s\", \"metric\": \"%s\", \"value\": %.4f, \"worst\": %.4f, \"rounds\": %zu, "
        "\"direction\": \"%s\", \"values\": [%s]",
        separator, row.scenario, row.metric, median, worst, row.values.size(), row.higher ? "higher" : "lower",
        values.c_str());
    if (row.goal) {
      bool const met = row.higher ? median >= *row.goal : median <= *row.goal;
      std::printf(", \"goal\": %.2f, \"met\": %s", *row.goal, met ? "true" : "false");
    }
    std::printf("}");
    separator = ",";
  }
  std::printf("]}\n");
}

void measure(int rounds, bool quick) {
  std::int64_t const messages = quick ? 100'000 : 1'000'000;
  std::int64_t const bursts = quick ? 20 : 200;
  std::int64_t const singles = quick ? 200 : 2000;
  char const* const flooded = "1 producer, 16 bytes, as fast as they go, a core each";
  char const* const busy = "1 producer, 16 bytes, consumer busy";
  char const* const asleep = "1 producer, 16 bytes, consumer asleep";
  std::vector<Row> rows{{flooded, "messages a second, over the better concurrent_channel", true, 5.0},
                        {flooded, "Channel, million a second, at hand first", true},
                        {flooded, "Channel, million a second, receive alone", true},
                        {flooded, "concurrent_channel, million a second, at hand first", true},
                        {flooded, "concurrent_channel, million a second, receive alone", true},
                        {busy, "Channel, send, p50 in us", false, 0.3},
                        {busy, "Channel, send, p99 in us"},
                        {busy, "concurrent_channel, send, p50 in us"},
                        {busy, "concurrent_channel, send, p99 in us"},
                        {asleep, "Channel, send to received, p50 in us", false, 25.0},
                        {asleep, "Channel, send to received, p99 in us"},
                        {asleep, "concurrent_channel, send to received, p50 in us"},
                        {asleep, "concurrent_channel, send to received, p99 in us"}};
  for (int round = 0; round < rounds; ++round) {
    auto const ours_each = messages_per_second<Ours<Receive::each>>(messages);
    auto const twin_each = messages_per_second<Twin<Receive::each>>(messages);
    auto const ours = messages_per_second<Ours<Receive::at_hand_first>>(messages);
    auto const twin = messages_per_second<Twin<Receive::at_hand_first>>(messages);
    auto our_costs = send_costs_ns<Ours<Receive::at_hand_first>>(bursts);
    auto twin_costs = send_costs_ns<Twin<Receive::at_hand_first>>(bursts);
    auto our_latencies = latencies_ns<Ours<Receive::at_hand_first>>(singles);
    auto twin_latencies = latencies_ns<Twin<Receive::at_hand_first>>(singles);
    std::size_t row = 0;
    for (double const value : {std::max(ours, ours_each) / std::max(twin, twin_each), ours / 1e6, ours_each / 1e6,
                               twin / 1e6, twin_each / 1e6}) {
      rows[row++].values.push_back(value);
    }
    for (auto* const times : {&our_costs, &twin_costs, &our_latencies, &twin_latencies}) {
      for (double const share : {0.5, 0.99}) rows[row++].values.push_back(percentile(*times, share) / 1e3);
    }
  }
  print(rows);
}

}  // namespace

auto main(int argc, char** argv) -> int try {
  int rounds = 0;
  bool quick = false;
  for (int i = 1; i < argc; ++i) {
    std::string_view const argument{argv[i]};
    if (argument == "--quick") {
      quick = true;
    } else if (argument == "--rounds" && i + 1 < argc) {
      rounds = std::atoi(argv[++i]);
    } else {
      throw std::invalid_argument{"usage: channel [--rounds N] [--quick]"};
    }
  }
  measure(rounds > 0 ? rounds : quick ? 3 : 5, quick);
  return 0;
} catch (std::exception const& error) {
  std::fprintf(stderr, "channel: %s\n", error.what());
  return 1;
}
