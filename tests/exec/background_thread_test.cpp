// SPDX-License-Identifier: Apache-2.0
#include <raytrain/exec/background_thread.hpp>

#include <future>
#include <memory>
#include <numeric>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

using raytrain::BackgroundThread;

TEST_CASE("jobs run in the order in which they were posted, on one thread that is not the poster's") {
  std::vector<int> order;
  std::set<std::thread::id> threads;
  {
    BackgroundThread background;
    for (int number = 0; number < 1000; ++number) {
      background.post([&order, &threads, number] {
        order.push_back(number);
        threads.insert(std::this_thread::get_id());
      });
    }
  }
  std::vector<int> expected(1000);
  std::iota(expected.begin(), expected.end(), 0);
  CHECK(order == expected);
  CHECK(threads.size() == 1);
  CHECK(threads.count(std::this_thread::get_id()) == 0);
}

TEST_CASE("the destructor runs every job that was posted, those too that jobs post meanwhile") {
  int ran = 0;
  {
    BackgroundThread background;
    std::promise<void> gate;
    background.post([open = gate.get_future().share()] { open.wait(); });
    for (int number = 0; number < 10; ++number) {
      background.post([&ran, &background] {
        ++ran;
        background.post([&ran] { ++ran; });
      });
    }
    gate.set_value();
  }
  CHECK(ran == 20);
}

TEST_CASE("what a job holds is released once it has run, not when the next one comes") {
  BackgroundThread background;
  std::promise<void> released;
  std::shared_ptr<void> held{nullptr, [&released](void*) { released.set_value(); }};
  background.post([held = std::move(held)] {});
  released.get_future().wait();
  CHECK_FALSE(held);
}

TEST_CASE("a job may be posted from several threads at once, and none is lost") {
  std::vector<int> counts(4, 0);
  {
    BackgroundThread background;
    std::vector<std::thread> posters;
    for (std::size_t poster = 0; poster < counts.size(); ++poster) {
      posters.emplace_back([&background, &counts, poster] {
        for (int number = 0; number < 500; ++number) background.post([&counts, poster] { ++counts[poster]; });
      });
    }
    for (auto& poster : posters) poster.join();
  }
  CHECK(counts == std::vector<int>(4, 500));
}

TEST_CASE("what is posted for later runs behind the rest, but for the oldest of more than four") {
  std::vector<int> order;
  {
    BackgroundThread background;
    std::promise<void> gate;
    background.post([open = gate.get_future().share()] { open.wait(); });
    for (int number = 0; number < 6; ++number) background.post_later([&order, number] { order.push_back(number); });
    for (int number = 10; number < 12; ++number) background.post([&order, number] { order.push_back(number); });
    gate.set_value();
  }
  CHECK(order == std::vector{0, 1, 10, 11, 2, 3, 4, 5});
}
