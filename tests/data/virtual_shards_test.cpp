// SPDX-License-Identifier: Apache-2.0
// Epochs that are cut into virtual shards.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/data/dataset_shard.hpp>
#include <raytrain/testing/random_seed.hpp>

#include "../support/thrown_error.hpp"
#include "numbered_rows.hpp"

using namespace raytrain;
using raytrain::testing::check_contains;
using raytrain::testing::random_seed;
using raytrain::testing::thrown_error;

namespace {

auto shard_of(Dataset const& dataset, std::uint32_t rank, std::uint32_t workers, std::uint32_t shards) -> DatasetShard {
  return {dataset, {.rank = Rank{rank}, .world_size = WorldSize{workers}, .virtual_shards = shards, .seed = 7}};
}

/// Which rows each virtual shard gets in each step, with so many workers. Checks what all workers agree about.
auto rows_by_step(Dataset const& dataset, std::uint32_t workers, std::uint32_t shards, BatchOptions const& options)
    -> std::vector<std::map<std::uint32_t, Rows>> {
  std::vector<std::map<std::uint32_t, Rows>> steps;
  std::size_t batches = 0;
  for (std::uint32_t rank = 0; rank < workers; ++rank) {
    auto shard = shard_of(dataset, rank, workers, shards);
    auto const range = shard.batches(options);
    if (rank == 0) batches = range.size();
    CHECK(range.size() == batches);
    std::size_t step = 0;
    ShardPosition before = shard.position();
    for (auto const& batch : range) {
      steps.resize(std::max(steps.size(), step + 1));
      Rows rows;
      for (std::size_t i = 0; i < batch.size(); ++i) rows.push_back(batch.row(i));
      if (!batch.is_padding()) CHECK(steps[step].emplace(batch.turn().shard, rows).second);
      CHECK(batch.turn().shards == shards);
      if (batch.ends_step()) {
        CHECK(shard.position() > before);
        before = shard.position();
        ++step;
      } else {
        CHECK(shard.position() == before);
      }
    }
    CHECK(step == steps.size());
    CHECK(shard.position() == ShardPosition{options.epoch + 1, 0});
  }
  return steps;
}

}  // namespace

TEST_CASE(
    "each virtual shard gets the same rows in the same step with any number of workers, and each row comes once") {
  auto const seed = random_seed();
  CAPTURE(seed);
  std::mt19937_64 random{seed};
  for (int round = 0; round < 20; ++round) {
    auto const shards = static_cast<std::uint32_t>(1 + random() % 9);
    auto const dataset = numbered(shards + random() % 200);
    BatchOptions const options{.batch_size = static_cast<std::int64_t>(1 + random() % 12),
                               .epoch = static_cast<std::int64_t>(random() % 3),
                               .shuffle = random() % 2 == 0};
    CAPTURE(shards);
    CAPTURE(dataset.rows());
    auto const expected = rows_by_step(dataset, shards, shards, options);
    std::vector<int> seen(dataset.rows());
    for (auto const& step : expected) {
      CHECK(step.size() == shards);
      for (auto const& [shard, rows] : step) {
        for (auto const row : rows) ++seen[row];
      }
    }
    CHECK(std::ranges::all_of(seen, [](int times) { return times <= 1; }));
    CHECK(std::reduce(seen.begin(), seen.end()) == static_cast<int>(dataset.rows() / shards * shards));
    for (std::uint32_t workers = 1; workers < shards; ++workers) {
      CAPTURE(workers);
      CHECK(rows_by_step(dataset, workers, shards, options) == expected);
    }
  }
}

TEST_CASE("an epoch goes on at the next sample with another number of workers of the same virtual shards") {
  auto const dataset = numbered(67);
  auto const whole = rows_by_step(dataset, 3, 4, {.batch_size = 5});
  auto const rest = rows_by_step(dataset, 2, 4, {.batch_size = 5, .start = {0, 40}});
  CHECK(rest == std::vector(whole.begin() + 2, whole.end()));
}

TEST_CASE("with as many virtual shards as workers each batch ends its step, and none is padding") {
  auto shard = shard_of(numbered(40), 1, 4, 4);
  for (auto const& batch : shard.batches({.batch_size = 3})) {
    CHECK(batch.ends_step());
    CHECK_FALSE(batch.is_padding());
  }
  CHECK(shard.rows() == 10);
}

TEST_CASE("a worker with fewer virtual shards than others pads its last turn, and counts fewer rows") {
  auto const dataset = numbered(48);
  CHECK(shard_of(dataset, 0, 3, 8).rows() == 18);
  auto last = shard_of(dataset, 2, 3, 8);
  CHECK(last.rows() == 12);
  std::vector<bool> padding;
  for (auto const& batch : last.batches({.batch_size = 6})) padding.push_back(batch.is_padding());
  CHECK(padding == std::vector{false, false, true});
}

TEST_CASE("a dataset that is not split has no virtual shards") {
  DatasetShard shard{numbered(10), {.world_size = WorldSize{2}, .virtual_shards = 4, .split = false}};
  CHECK(shard.rows() == 10);
  auto const range = shard.batches({.batch_size = 5});
  CHECK(range.size() == 2);
  CHECK(range[0].ends_step());
}

TEST_CASE("more virtual shards than rows, and fewer than workers, are refused with both numbers") {
  CHECK(thrown_error([] { return shard_of(numbered(7), 0, 2, 8).rows(); }) ==
        "invalid_config: DatasetShard: 7 rows leave nothing for each of 8 virtual shards; lower "
        "ScalingConfig::virtual_shards, or use more rows");
  CHECK(thrown_error([] { return shard_of(numbered(70), 0, 3, 2).rows(); }) ==
        "invalid_config: DatasetShard: 2 virtual shards leave nothing for some of 3 workers; use as many virtual "
        "shards as there may be workers");
}

TEST_CASE("a virtual shard's batch has the same random numbers whichever worker has the shard, and padding none new") {
  auto const dataset = numbered(30);
  auto const seeds = [&](std::uint32_t workers) {
    std::map<std::pair<std::size_t, std::uint32_t>, std::uint64_t> of_batches;  // by step and shard
    for (std::uint32_t rank = 0; rank < workers; ++rank) {
      auto const range = shard_of(dataset, rank, workers, 5).batches({.batch_size = 2, .epoch = 1});
      for (std::size_t i = 0; i < range.size(); ++i) {
        auto const turn = range[i].turn();
        auto const [at, is_new] = of_batches.try_emplace({i / turn.count, turn.shard}, range.seed(i));
        CHECK(is_new == !turn.is_padding);
        CHECK(at->second == range.seed(i));
      }
    }
    return of_batches;
  };
  auto const alone = seeds(1);
  CHECK(alone.size() == 15);
  CHECK(seeds(2) == alone);
  CHECK(seeds(3) == alone);
}
