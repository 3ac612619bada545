// SPDX-License-Identifier: Apache-2.0
#include <raytrain/data/detail/permutation.hpp>
#include <raytrain/testing/random_seed.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <latch>
#include <memory>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

using raytrain::ShuffleKey;
using raytrain::detail::permutation;
using raytrain::detail::PermutationCache;
using raytrain::detail::SplitMix64;
using raytrain::detail::Xoshiro256PlusPlus;
using raytrain::testing::random_seed;
using Rows = std::vector<std::uint64_t>;

TEST_CASE("the generators give the published reference values") {
  SplitMix64 split{1234567};
  for (auto const expected : {6457827717110365317U, 3203168211198807973U, 9817491932198370423U, 4593380528125082431U}) {
    CHECK(split() == expected);
  }
  Xoshiro256PlusPlus random{{1, 2, 3, 4}};
  for (std::uint64_t const expected : {41943041UL, 58720359UL, 3588806011781223UL, 3591011842654386UL,
                                       9228616714210784205UL, 9973669472204895162UL, 14011001112246962877UL}) {
    CHECK(random() == expected);
  }
}

TEST_CASE("draws below a bound that rejects every other value skip those values") {
  // From an independent program; the bound 2^63 + 1 throws nearly half of the raw values away.
  Xoshiro256PlusPlus random{{1, 2, 3, 4}};
  for (std::uint64_t const expected : {20971520UL, 29360179UL, 1794403005890611UL, 4986834736102447581UL}) {
    CHECK(random.below((std::uint64_t{1} << 63U) + 1) == expected);
  }
}

TEST_CASE("the order of an epoch never changes, or stored positions would lose their meaning") {
  // Computed by an independent program.
  CHECK(permutation({.seed = 42, .epoch = 0}, 16) == Rows{10, 2, 14, 0, 5, 4, 12, 13, 9, 6, 11, 8, 3, 15, 7, 1});
  CHECK(permutation({.seed = 42, .epoch = 1}, 16) == Rows{1, 15, 13, 8, 7, 0, 12, 4, 2, 14, 11, 9, 6, 10, 3, 5});
  CHECK(permutation({.seed = 0, .epoch = 0}, 16) == Rows{8, 12, 11, 14, 1, 15, 10, 9, 3, 13, 2, 5, 0, 4, 6, 7});
  std::uint64_t hash = 0xcbf29ce484222325;
  for (auto const row : permutation({.seed = 42, .epoch = 3}, 60000)) hash = (hash ^ row) * 0x100000001b3;
  CHECK(hash == 0xbcbcaf83d85cca27);
}

TEST_CASE("an order has every row once, for any key and number of rows") {
  auto const seed = random_seed();
  for (std::size_t const rows : {0U, 1U, 2U, 3U, 1000U, 4097U}) {
    auto order = permutation({.seed = seed, .epoch = rows}, rows);
    std::ranges::sort(order);
    Rows expected(rows);
    for (std::size_t i = 0; i < rows; ++i) expected[i] = i;
    CHECK(order == expected);
  }
}

TEST_CASE("every order of four rows is equally likely") {
  auto const seed = random_seed();
  std::array<int, 256> counts{};
  constexpr int epochs = 24000;
  for (std::uint64_t epoch = 0; epoch < epochs; ++epoch) {
    auto const order = permutation({.seed = seed, .epoch = epoch}, 4);
    ++counts[order[0] << 6U | order[1] << 4U | order[2] << 2U | order[3]];
  }
  CHECK(std::ranges::count_if(counts, [](int count) { return count > 0; }) == 24);
  double chi_square = 0;
  for (auto const count : counts) {
    if (count > 0) chi_square += (count - 1000.0) * (count - 1000.0) / 1000.0;
  }
  CHECK(chi_square < 75);  // 23 degrees of freedom: exceeded by one seed in four million
}

TEST_CASE("a seed and an epoch do not stand for each other") {
  CHECK(permutation({.seed = 1, .epoch = 0}, 100) != permutation({.seed = 0, .epoch = 1}, 100));
  CHECK(permutation({.seed = 1, .epoch = 0}, 100) != permutation({.seed = 2, .epoch = 0}, 100));
  CHECK(permutation({.seed = 1, .epoch = 0}, 100) != permutation({.seed = 1, .epoch = 1}, 100));
}

TEST_CASE("threads that ask for one order at once all get the same one, and the cache keeps none") {
  PermutationCache const cache;
  constexpr std::size_t threads = 4;
  std::array<std::shared_ptr<Rows const>, threads> orders;
  std::latch all_here{threads};
  {
    std::vector<std::jthread> workers;
    for (auto& order : orders) {
      workers.emplace_back([&] {
        all_here.arrive_and_wait();
        order = cache.get({.seed = 5, .epoch = 2}, 10000);
      });
    }
  }
  for (auto const& order : orders) CHECK(order == orders.front());
  CHECK(*orders.front() == permutation({.seed = 5, .epoch = 2}, 10000));

  auto const other = cache.get({.seed = 5, .epoch = 3}, 10000);
  CHECK(*other != *orders.front());
  std::weak_ptr const first = orders.front();
  orders = {};
  CHECK(first.expired());
  CHECK(*cache.get({.seed = 5, .epoch = 2}, 10000) == permutation({.seed = 5, .epoch = 2}, 10000));
}
