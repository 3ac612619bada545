// SPDX-License-Identifier: Apache-2.0
#include <raytrain/collective/shard_average.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <stdexcept>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/core/shard_position.hpp>
#include <raytrain/testing/random_seed.hpp>

#include "../support/thrown_error.hpp"
#include "local_world.hpp"

using namespace raytrain;
using raytrain::testing::random_seed;
using raytrain::testing::thrown_error;

namespace {

constexpr std::uint32_t shards = 8;

/// Numbers whose sum depends on the order in which they are added, and zeros of both signs.
auto values_of(std::uint64_t seed, std::uint32_t shard) -> std::vector<float> {
  std::mt19937_64 random{seed + shard};
  std::vector<float> values(33);
  for (auto& value : values) {
    auto const size = std::ldexp(1.0F, static_cast<int>(random() % 40) - 20);
    value = random() % 8 == 0 ? -0.0F : size * (random() % 2 == 0 ? 1.0F : -1.0F) / 3.0F;
  }
  values[0] = -0.0F;  // of every shard
  return values;
}

/// What rank 0 of so many workers gets of a step; all get the same.
auto average_of(std::uint32_t workers, std::uint64_t seed) -> std::vector<float> {
  std::vector<std::vector<float>> results(workers);
  LocalWorld::run(WorldSize{workers}, [&](Collective& collective) {
    ShardAverage<float> average{collective};
    auto const turns = (shards + workers - 1) / workers;
    for (int step = 0; step < 2; ++step) {  // nothing of one step is left in the next one
      for (std::uint32_t turn = 0; turn < turns; ++turn) {
        auto const shard = turn * workers + collective.rank().value;
        auto const is_padding = shard >= shards;
        auto values = is_padding ? std::vector<float>(33, 1e30F) : values_of(seed, shard);
        auto const is_complete = average.add(
            values,
            {.index = turn, .count = turns, .shard = shard % shards, .shards = shards, .is_padding = is_padding});
        if (is_complete) results[collective.rank().value] = values;
        if (is_complete != (turn + 1 == turns)) throw std::logic_error{"is_complete"};
      }
    }
  });
  for (auto const& result : results) {
    CHECK(std::memcmp(result.data(), results[0].data(), result.size() * sizeof(float)) == 0);
  }
  return results[0];
}

}  // namespace

TEST_CASE("the mean over virtual shards has the bits of their sum in order, with any number of workers") {
  auto const seed = random_seed();
  CAPTURE(seed);
  auto expected = values_of(seed, 0);
  for (std::uint32_t shard = 1; shard < shards; ++shard) {
    auto const values = values_of(seed, shard);
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += values[i];
  }
  for (auto& value : expected) value /= static_cast<float>(shards);
  CHECK(std::signbit(expected[0]));
  for (std::uint32_t workers = 1; workers <= shards; ++workers) {
    CAPTURE(workers);
    auto const average = average_of(workers, seed);
    CHECK(std::memcmp(average.data(), expected.data(), expected.size() * sizeof(float)) == 0);
  }
}

TEST_CASE("integers wrap around as in one sum, and their mean rounds toward zero") {
  constexpr auto most = std::numeric_limits<std::int32_t>::max();
  LocalWorld::run(WorldSize{1}, [](Collective& collective) {
    ShardAverage<std::int32_t> average{collective};
    std::vector<std::int32_t> first{most, -4};
    std::vector<std::int32_t> second{1, 1};
    CHECK_FALSE(average.add(first, {.index = 0, .count = 2, .shard = 0, .shards = 2}));
    CHECK(average.add(second, {.index = 1, .count = 2, .shard = 1, .shards = 2}));
    CHECK(second == std::vector{std::numeric_limits<std::int32_t>::min() / 2, -1});
  });
}

TEST_CASE("a turn out of order and another size within a step are refused with both numbers") {
  LocalWorld::run(WorldSize{1}, [](Collective& collective) {
    ShardAverage<double> average{collective};
    std::vector<double> values(3);
    ShardTurn const second{.index = 1, .count = 2, .shards = 2};
    CHECK(thrown_error([&] { return average.add(values, second); }) ==
          "invalid_call: ShardAverage::add: was called for turn 1 of a step, and is at turn 0; call it once for each "
          "batch of an epoch, in their order");
    CHECK_FALSE(average.add(values, {.index = 0, .count = 2, .shards = 2}));
    values.resize(4);
    CHECK(thrown_error([&] { return average.add(values, second); }) ==
          "invalid_call: ShardAverage::add: was called with 4 values, and with 3 earlier in this step; use one "
          "ShardAverage for each array");
  });
}
