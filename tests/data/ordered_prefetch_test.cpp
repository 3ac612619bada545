// SPDX-License-Identifier: Apache-2.0
#include <raytrain/data/ordered_prefetch.hpp>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/core/error.hpp>
#include <raytrain/data/prefetch_options.hpp>

using raytrain::Error;
using raytrain::OrderedPrefetch;
using raytrain::PrefetchOptions;

namespace {

using PrefetchedNumbers = OrderedPrefetch<std::size_t>;

/// Threads that need no set-up.
auto made_by(PrefetchedNumbers::Make make) -> std::function<void(PrefetchedNumbers::Run const&)> {
  return [make = std::move(make)](PrefetchedNumbers::Run const& run) { run(make); };
}

}  // namespace

TEST_CASE("values come in order, each is made once, whichever thread is the fastest") {
  for (int const threads : {1, 2, 5}) {
    for (int const factor : {1, 3}) {
      std::vector<std::atomic<int>> made(200);
      PrefetchedNumbers prefetch{
          made.size(), {.threads = threads, .prefetch_factor = factor}, made_by([&](std::size_t index) {
            ++made[index];
            if (index % 3 == 0) std::this_thread::yield();
            return index * index;
          })};
      for (std::size_t i = 0; i < made.size(); ++i) REQUIRE(prefetch.take() == i * i);
      CHECK(std::ranges::all_of(made, [](auto const& count) { return count == 1; }));
    }
  }
}

TEST_CASE("so many values are made ahead of the one that is taken, and no more") {
  constexpr std::size_t ahead = 6;
  std::mutex mutex;
  std::condition_variable changed;
  std::size_t begun = 0;
  std::size_t taken = 0;
  std::size_t most_ahead = 0;
  PrefetchedNumbers prefetch{50, {.threads = 3, .prefetch_factor = 2}, made_by([&](std::size_t index) {
                               std::lock_guard const lock{mutex};
                               most_ahead = std::max(most_ahead, index + 1 - taken);
                               ++begun;
                               changed.notify_all();
                               return index;
                             })};
  for (std::size_t i = 0; i < 50; ++i) {
    std::unique_lock lock{mutex};
    changed.wait(lock, [&] { return begun == std::min(i + ahead, std::size_t{50}); });  // without another take
    ++taken;
    lock.unlock();
    CHECK(prefetch.take() == i);
  }
  CHECK(most_ahead == ahead);
}

TEST_CASE("threads make values at the same time") {
  std::barrier all_here{3};
  PrefetchedNumbers prefetch{6, {.threads = 3, .prefetch_factor = 1}, made_by([&](std::size_t index) {
                               all_here.arrive_and_wait();  // for ever, were it one after the other
                               return index;
                             })};
  for (std::size_t i = 0; i < 6; ++i) CHECK(prefetch.take() == i);
}

TEST_CASE("what making a value throws comes at its turn, then always, and no later ones are begun") {
  std::atomic<std::size_t> made{0};
  {
    PrefetchedNumbers prefetch{1000, {.threads = 1, .prefetch_factor = 100}, made_by([&](std::size_t index) {
                                 if (index == 5) throw std::runtime_error{"value 5"};
                                 ++made;
                                 return index;
                               })};
    for (std::size_t i = 0; i < 5; ++i) CHECK(prefetch.take() == i);
    CHECK_THROWS_WITH_AS((void)prefetch.take(), "value 5", std::runtime_error);
    CHECK_THROWS_WITH_AS((void)prefetch.take(), "value 5", std::runtime_error);
  }
  CHECK(made == 5);
}

TEST_CASE("a thread that cannot be set up is an error of the next value, not a wait for ever") {
  PrefetchedNumbers prefetch{
      4, {.threads = 1}, [](PrefetchedNumbers::Run const&) { throw std::runtime_error{"no memory"}; }};
  CHECK_THROWS_WITH_AS((void)prefetch.take(), "no memory", std::runtime_error);
}

TEST_CASE("a thread that cannot be set up is an error from then on, whatever others make") {
  std::atomic<int> threads = 0;
  std::promise<void> may_make;
  auto const made = may_make.get_future().share();
  PrefetchedNumbers prefetch{8, {.threads = 2}, [&](PrefetchedNumbers::Run const& run) {
                               if (threads++ == 0) throw std::runtime_error{"no memory"};
                               run([&](std::size_t index) {
                                 made.wait();
                                 return index;
                               });
                             }};
  CHECK_THROWS_WITH_AS((void)prefetch.take(), "no memory", std::runtime_error);
  may_make.set_value();
  for (int i = 0; i < 100; ++i) CHECK_THROWS_WITH_AS((void)prefetch.take(), "no memory", std::runtime_error);
}

TEST_CASE("who leaves early waits for the values in the making alone, and all that was made is gone") {
  std::weak_ptr<int> of_values;
  std::atomic<int> made{0};
  std::atomic<int> threads{0};
  {
    auto const value = std::make_shared<int>(1);
    of_values = value;
    using Pointers = OrderedPrefetch<std::shared_ptr<int>>;
    Pointers prefetch{1'000'000, {.threads = 3}, [&, value](Pointers::Run const& run) {
                        ++threads;
                        run([&](std::size_t) {
                          ++made;
                          return value;
                        });
                        --threads;
                      }};
    CHECK(prefetch.take() != nullptr);
  }
  CHECK(threads == 0);
  CHECK(made <= 1 + 6);
  CHECK(of_values.expired());
}

TEST_CASE("values that can only be moved, and no more threads than values") {
  std::mutex mutex;
  std::set<std::thread::id> threads;
  using Pointers = OrderedPrefetch<std::unique_ptr<std::size_t>>;
  Pointers prefetch{2, {.threads = 8}, [&](Pointers::Run const& run) {
                      {
                        std::lock_guard const lock{mutex};
                        threads.insert(std::this_thread::get_id());
                      }
                      run([](std::size_t index) { return std::make_unique<std::size_t>(index); });
                    }};
  CHECK(*prefetch.take() == 0);
  CHECK(*prefetch.take() == 1);
  std::lock_guard const lock{mutex};
  CHECK(threads.size() <= 2);
}

TEST_CASE("nothing to make needs no thread") {
  auto was_called = false;
  {
    PrefetchedNumbers const prefetch{0, {.threads = 2}, [&](PrefetchedNumbers::Run const&) { was_called = true; }};
  }
  CHECK_FALSE(was_called);
}

TEST_CASE("prefetch options out of range are refused, and the message says what to write") {
  CHECK_NOTHROW(PrefetchOptions{.threads = 0}.validate());
  CHECK_THROWS_WITH_AS(PrefetchOptions{.threads = -1}.validate(),
                       doctest::Contains("PrefetchOptions::threads: must not be negative (got -1)"), Error);
  CHECK_THROWS_WITH_AS(PrefetchOptions{.prefetch_factor = 0}.validate(),
                       doctest::Contains("PrefetchOptions::prefetch_factor: must be at least 1 (got 0)"), Error);
}
