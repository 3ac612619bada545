// SPDX-License-Identifier: Apache-2.0
#include <raytrain/data/dataset_shard.hpp>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <random>
#include <ranges>
#include <set>
#include <span>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/testing/random_seed.hpp>

#include "../support/thrown_error.hpp"
#include "numbered_rows.hpp"

using raytrain::Batch;
using raytrain::BatchOptions;
using raytrain::BatchRange;
using raytrain::Dataset;
using raytrain::DatasetShard;
using raytrain::Rank;
using raytrain::ShardOptions;
using raytrain::ShardPosition;
using raytrain::WorldSize;
using raytrain::testing::check_contains;
using raytrain::testing::random_seed;
using raytrain::testing::thrown_error;

static_assert(std::ranges::input_range<BatchRange>);
static_assert(std::same_as<std::ranges::range_value_t<BatchRange>, Batch>);

namespace {

/// What all ranks see in one step, in rank order.
struct GlobalStep {
  Rows rows;
  ShardPosition next;
};

/// The epoch as all ranks see it; also checks that they agree on sizes and positions.
auto global_steps(Dataset const& dataset, WorldSize world, std::uint64_t seed, BatchOptions const& options)
    -> std::vector<GlobalStep> {
  std::vector<GlobalStep> steps;
  for (std::uint32_t rank = 0; rank < world.value; ++rank) {
    DatasetShard shard{dataset, {.rank = Rank{rank}, .world_size = world, .seed = seed}};
    std::size_t step = 0;
    auto const range = shard.batches(options);
    if (rank == 0) steps.resize(range.size());
    REQUIRE(range.size() == steps.size());
    for (auto const batch : range) {
      CHECK(shard.position() == batch.next_position());
      if (rank == 0) steps[step].next = batch.next_position();
      CHECK(batch.next_position() == steps[step].next);
      CHECK(batch.size() * rank == steps[step].rows.size());
      CHECK(batch.size() >= 1);
      std::ranges::copy(rows_of(batch), std::back_inserter(steps[step].rows));
      ++step;
    }
    CHECK(step == steps.size());
  }
  return steps;
}

auto rows_of_all(std::vector<GlobalStep> const& steps) -> Rows {
  Rows rows;
  for (auto const& step : steps) std::ranges::copy(step.rows, std::back_inserter(rows));
  return rows;
}

auto sorted(Rows rows) -> Rows {
  std::ranges::sort(rows);
  return rows;
}

}  // namespace

TEST_CASE("over all ranks an epoch has every row at most once, and leaves out fewer than there are workers") {
  auto const seed = random_seed();
  std::mt19937_64 random{seed};
  for (std::uint32_t const world : {1U, 2U, 3U, 4U, 7U}) {
    for (int round = 0; round < 20; ++round) {
      std::size_t const rows = world + random() % 200;
      BatchOptions const options{.batch_size = static_cast<std::int64_t>(1 + random() % 70),
                                 .epoch = static_cast<std::int64_t>(random() % 5),
                                 .shuffle = random() % 4 != 0};
      CAPTURE(rows);
      CAPTURE(world);
      CAPTURE(options.batch_size);
      auto const seen = sorted(rows_of_all(global_steps(numbered(rows), WorldSize{world}, seed, options)));
      CHECK(seen.size() == rows - rows % world);
      CHECK(std::ranges::adjacent_find(seen) == seen.end());
      CHECK(seen.back() < rows);
    }
  }
}

TEST_CASE("each step has the same samples in the same order for every world size of one global batch size") {
  auto const seed = random_seed();
  auto const dataset = numbered(12 * 31 + 12);
  for (bool const shuffle : {true, false}) {
    auto const one = global_steps(dataset, WorldSize{1}, seed, {.batch_size = 24, .epoch = 3, .shuffle = shuffle});
    for (std::uint32_t const world : {2U, 3U, 4U, 6U, 12U}) {
      auto const many =
          global_steps(dataset, WorldSize{world}, seed, {.batch_size = 24 / world, .epoch = 3, .shuffle = shuffle});
      REQUIRE(many.size() == one.size());
      for (std::size_t i = 0; i < one.size(); ++i) {
        CHECK(many[i].rows == one[i].rows);
        CHECK(many[i].next == one[i].next);
      }
    }
  }
}

TEST_CASE("the order follows from seed and epoch alone") {
  auto const dataset = numbered(100);
  auto const order = [&](std::uint64_t seed, std::int64_t epoch) {
    return rows_of_all(global_steps(dataset, WorldSize{2}, seed, {.batch_size = 7, .epoch = epoch}));
  };
  CHECK(order(1, 0) == order(1, 0));
  CHECK(order(1, 0) != order(1, 1));
  CHECK(order(1, 0) != order(2, 0));
  DatasetShard pinned{numbered(16), {.seed = 42}};
  Rows seen;
  for (auto const batch : pinned.batches({.batch_size = 5}))
    std::ranges::copy(rows_of(batch), std::back_inserter(seen));
  CHECK(seen == Rows{10, 2, 14, 0, 5, 4, 12, 13, 9, 6, 11, 8, 3, 15, 7, 1});
}

TEST_CASE("each batch of each worker, epoch, dataset and seed has random numbers of its own, the same after a resume") {
  struct Place {
    std::uint32_t rank;
    std::int64_t epoch;
    char const* dataset;
    std::uint64_t seed;
  };
  auto const seeds = [](Place const& at, ShardPosition start = {}) {
    DatasetShard shard{numbered(64),
                       {.name = at.dataset, .rank = Rank{at.rank}, .world_size = WorldSize{2}, .seed = at.seed}};
    auto const range = shard.batches({.batch_size = 4, .epoch = at.epoch, .start = start});
    std::vector<std::uint64_t> all;
    for (std::size_t i = 0; i < range.size(); ++i) all.push_back(range.seed(i));
    return all;
  };
  auto const first = seeds({0, 3, "train", 7});
  REQUIRE(first.size() == 8);
  std::vector<std::uint64_t> all;
  for (auto const& place :
       {Place{0, 3, "train", 7}, {1, 3, "train", 7}, {0, 4, "train", 7}, {0, 3, "other", 7}, {0, 3, "train", 8}}) {
    std::ranges::copy(seeds(place), std::back_inserter(all));
  }
  CHECK(std::set(all.begin(), all.end()).size() == 5 * 8);
  CHECK(seeds({0, 3, "train", 7}, {3, 24}) == std::vector(first.begin() + 3, first.end()));
}

TEST_CASE("the last batch is divided equally, and drop_last leaves it out") {
  auto const dataset = numbered(21);
  auto const steps = global_steps(dataset, WorldSize{2}, 0, {.batch_size = 4, .shuffle = false});
  REQUIRE(steps.size() == 3);
  CHECK(steps[1].rows == Rows{8, 9, 10, 11, 12, 13, 14, 15});
  CHECK(steps[2].rows == Rows{16, 17, 18, 19});
  CHECK(steps[1].next == ShardPosition{0, 16});
  CHECK(steps[2].next == ShardPosition{1, 0});
  auto const full = global_steps(dataset, WorldSize{2}, 0, {.batch_size = 4, .shuffle = false, .drop_last = true});
  REQUIRE(full.size() == 2);
  CHECK(full[1].next == ShardPosition{1, 0});
  DatasetShard second{dataset, {.rank = Rank{1}, .world_size = WorldSize{2}}};
  CHECK(second.rows() == 10);
  CHECK(rows_of(second.batches({.batch_size = 4, .shuffle = false})[1]) == Rows{12, 13, 14, 15});
}

TEST_CASE("from each position of an epoch, any world size goes on with exactly the samples that were left") {
  auto const seed = random_seed();
  std::mt19937_64 random{seed};
  for (int round = 0; round < 30; ++round) {
    auto const rows = static_cast<std::size_t>(20 + random() % 100);
    auto const dataset = numbered(rows);
    WorldSize const before{static_cast<std::uint32_t>(1 + random() % 5)};
    WorldSize const after{static_cast<std::uint32_t>(1 + random() % 5)};
    BatchOptions const options{.batch_size = static_cast<std::int64_t>(1 + random() % 10), .epoch = 2};
    CAPTURE(rows);
    CAPTURE(before.value);
    CAPTURE(after.value);
    auto const whole = rows_of_all(global_steps(dataset, WorldSize{1}, seed, {.batch_size = 1, .epoch = 2}));
    auto const uninterrupted = global_steps(dataset, before, seed, options);
    Rows done;
    for (auto const& step : uninterrupted) {
      std::ranges::copy(step.rows, std::back_inserter(done));
      auto resumed_options = options;
      resumed_options.start = step.next;
      for (auto const world : {before, after}) {
        auto all = done;
        std::ranges::copy(rows_of_all(global_steps(dataset, world, seed, resumed_options)), std::back_inserter(all));
        if (step.next.epoch > options.epoch) {
          CHECK(all == done);
        } else {
          auto const left_out = (rows - done.size()) % world.value;
          CHECK(all == Rows(whole.begin(), whole.end() - static_cast<std::ptrdiff_t>(left_out)));
        }
      }
    }
  }
}

TEST_CASE("restored at the same world size, batches and positions are those of the uninterrupted run") {
  auto const dataset = numbered(103);
  for (bool const drop_last : {false, true}) {
    BatchOptions options{.batch_size = 8, .epoch = 1, .drop_last = drop_last};
    auto const uninterrupted = global_steps(dataset, WorldSize{3}, 9, options);
    for (std::size_t done = 1; done < uninterrupted.size(); ++done) {
      options.start = uninterrupted[done - 1].next;
      auto const rest = global_steps(dataset, WorldSize{3}, 9, options);
      REQUIRE(rest.size() == uninterrupted.size() - done);
      for (std::size_t i = 0; i < rest.size(); ++i) {
        CHECK(rest[i].rows == uninterrupted[done + i].rows);
        CHECK(rest[i].next == uninterrupted[done + i].next);
      }
    }
  }
}

TEST_CASE("a start serves nothing that lies before it, whatever the epoch") {
  DatasetShard shard{numbered(10), {}};
  ShardPosition const start{.epoch = 1, .samples = 6};
  CHECK(shard.batches({.batch_size = 2, .epoch = 0, .start = start}).empty());
  CHECK(shard.position() == start);
  CHECK(shard.batches({.batch_size = 2, .epoch = 1, .start = start}).size() == 2);
  CHECK(shard.position() == start);
  CHECK(shard.batches({.batch_size = 2, .epoch = 2, .start = start}).size() == 5);
  CHECK(shard.position() == ShardPosition{.epoch = 2, .samples = 0});
}

TEST_CASE("the position is that behind the batch handed out last, also when the loop is left early") {
  DatasetShard shard{numbered(10), {}};
  CHECK(shard.position() == ShardPosition{});
  auto copy = shard;
  for (auto const batch : shard.batches({.batch_size = 4, .epoch = 5})) {
    if (batch.next_position().samples == 8) break;
  }
  CHECK(shard.position() == ShardPosition{.epoch = 5, .samples = 8});
  CHECK(copy.position() == shard.position());
  for (auto const batch : shard.batches({.batch_size = 4, .epoch = 5})) CHECK(batch.size() > 0);
  CHECK(shard.position() == ShardPosition{.epoch = 6, .samples = 0});
}

TEST_CASE("a dataset that is not split is whole on each worker, in the same order") {
  auto const dataset = numbered(11);
  DatasetShard first{dataset, {.rank = Rank{0}, .world_size = WorldSize{3}, .seed = 4, .split = false}};
  DatasetShard last{dataset, {.rank = Rank{2}, .world_size = WorldSize{3}, .seed = 4, .split = false}};
  CHECK(last.rows() == 11);
  auto const range = last.batches({.batch_size = 4});
  REQUIRE(range.size() == 3);
  CHECK(range[2].size() == 3);
  auto const other = first.batches({.batch_size = 4});
  for (std::size_t i = 0; i < range.size(); ++i) CHECK(rows_of(range[i]) == rows_of(other[i]));
  DatasetShard tiny{numbered(1), {.rank = Rank{2}, .world_size = WorldSize{3}, .split = false}};
  CHECK(tiny.rows() == 1);
}

TEST_CASE("the parts of all ranks are the dataset as it lies, none copied, and not split the whole of it on each") {
  for (std::size_t const rows : {7U, 8U, 9U, 100U}) {
    auto const dataset = numbered(rows);
    auto const* const begin = dataset.column("number").as<std::int64_t>().data();
    for (std::uint32_t world = 1; world <= 7; ++world) {
      std::size_t next = 0;
      for (std::uint32_t rank = 0; rank < world; ++rank) {
        auto const part = DatasetShard{dataset, {.rank = Rank{rank}, .world_size = WorldSize{world}}}.part();
        CHECK(part.column("number").as<std::int64_t>().data() == begin + next);
        CHECK((part.rows() == rows / world || part.rows() == rows / world + 1));
        next += part.rows();
      }
      CHECK(next == rows);
      DatasetShard const whole{dataset, {.rank = Rank{world - 1}, .world_size = WorldSize{world}, .split = false}};
      CHECK(whole.part().rows() == rows);
    }
  }
}

TEST_CASE("a position within an epoch is refused when the seed or the dataset is another one than where it was taken") {
  auto const goes_on = [](ShardOptions place, BatchOptions const& options) {
    return thrown_error([&] { return DatasetShard{numbered(10), place}.batches(options).size(); });
  };
  BatchOptions const within{.batch_size = 2, .epoch = 3, .start = {3, 4}};
  CHECK(goes_on({.seed = 2, .seed_before = 1}, within) ==
        "invalid_config: BatchOptions::start: 4 samples of epoch 3 are done in an order that is another one now: of 10 "
        "rows by seed 1, and now of 10 by 2; go on with that seed and dataset, or begin that epoch anew, without a "
        "start");
  check_contains(goes_on({.rows_before = 12}, within), "of 12 rows by seed 0, and now of 10 by 0");
  auto const digest = numbered(10).digest();
  CHECK(goes_on({.digest_before = "0123"}, within) ==
        "invalid_config: BatchOptions::start: 4 samples of epoch 3 are done of a dataset with other columns or values: "
        "its digest was 0123, and is " +
            digest + " now; go on with that dataset, or begin that epoch anew, without a start");
  CHECK(DatasetShard{numbered(10), {.digest_before = digest}}.batches(within).size() == 3);
  auto const at_a_boundary = BatchOptions{.batch_size = 2, .epoch = 3, .start = {3, 0}};
  auto const unshuffled = BatchOptions{.batch_size = 2, .epoch = 3, .shuffle = false, .start = {3, 4}};
  CHECK(DatasetShard{numbered(10), {.seed = 2, .seed_before = 1}}.batches(at_a_boundary).size() == 5);
  CHECK(DatasetShard{numbered(10), {.digest_before = "0123"}}.batches(at_a_boundary).size() == 5);
  CHECK(DatasetShard{numbered(10), {.seed = 2, .seed_before = 1}}.batches(unshuffled).size() == 3);
  CHECK(DatasetShard{numbered(10), {.seed = 2, .seed_before = 2, .rows_before = 10}}.batches(within).size() == 3);
}

TEST_CASE("with another batch size a position within an epoch goes on at the very sample, and every row comes once") {
  Rows seen;
  auto const take = [&](BatchOptions const& options, int batches) {
    DatasetShard shard{numbered(10), {.seed = 7}};
    for (auto const& batch : shard.batches(options)) {
      auto const rows = rows_of(batch);
      seen.insert(seen.end(), rows.begin(), rows.end());
      if (--batches == 0) break;
    }
    return shard.position();
  };
  auto const position = take({.batch_size = 3}, 2);
  take({.batch_size = 1, .start = position}, 100);
  std::ranges::sort(seen);
  CHECK(seen == Rows{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
}

TEST_CASE("batches outlive their shard and can be taken by a view") {
  Rows seen;
  for (auto const batch :
       DatasetShard{numbered(9), {}}.batches({.batch_size = 2, .shuffle = false}) | std::views::take(2)) {
    std::ranges::copy(rows_of(batch), std::back_inserter(seen));
  }
  CHECK(seen == Rows{0, 1, 2, 3});
}

TEST_CASE("gathering gives each row's own values, for every row size") {
  auto const seed = random_seed();
  constexpr std::size_t rows = 50;
  for (std::size_t const width : {1U, 2U, 3U, 4U, 8U, 28U, 64U, 300U, 784U}) {
    std::vector<std::uint8_t> values(rows * width);
    std::mt19937_64 random{seed};
    for (auto& value : values) value = static_cast<std::uint8_t>(random());
    auto const dataset = Dataset::from_columns({{"x", values, {width}}});
    DatasetShard shard{dataset, {.rank = Rank{1}, .world_size = WorldSize{2}, .seed = seed}};
    for (bool const shuffle : {true, false}) {
      for (auto const batch : shard.batches({.batch_size = 7, .shuffle = shuffle})) {
        std::vector<std::uint8_t> gathered(batch.size() * width);
        batch.gather<std::uint8_t>("x", gathered);
        std::vector<std::uint8_t> expected;
        for (auto const row : rows_of(batch)) {
          auto const* const first = values.data() + row * width;
          expected.insert(expected.end(), first, first + width);
        }
        CHECK(gathered == expected);
        std::vector<std::byte> bytes(gathered.size());
        batch.gather(batch.columns().front(), bytes);
        CHECK(std::ranges::equal(bytes, std::as_bytes(std::span{expected})));
        auto const view = batch.contiguous<std::uint8_t>("x");
        CHECK(view.has_value() == !shuffle);
        if (view) CHECK(std::ranges::equal(*view, expected));
      }
    }
  }
}

TEST_CASE("gathering into what does not fit is refused with the numbers") {
  DatasetShard shard{numbered(10), {}};
  auto const range = shard.batches({.batch_size = 4});
  std::vector<std::int64_t> five(5);
  std::vector<float> floats(4);
  CHECK(thrown_error([&] {
          range[0].gather<std::int64_t>("number", five);
          return 0;
        }) ==
        "invalid_call: gather column 'number': 4 rows of 8 bytes are 32 bytes, the buffer has 40; size it by "
        "Batch::size(): the last batch of an epoch may be smaller");
  check_contains(thrown_error([&] {
                   range[0].gather<float>("number", floats);
                   return 0;
                 }),
                 "column 'number' as float32: it holds int64");
  check_contains(thrown_error([&] { return range[0].contiguous<float>("number").has_value(); }), "as float32");
  check_contains(thrown_error([&] {
                   range[0].gather<float>("x", floats);
                   return 0;
                 }),
                 "column 'x': is not in the dataset, which has number (int64, scalar)");
}

TEST_CASE("options that cannot work are refused with the field and the value") {
  DatasetShard shard{numbered(10), {.world_size = WorldSize{3}}};
  CHECK(thrown_error([&] { return shard.batches({.batch_size = 0}).size(); }) ==
        "invalid_config: BatchOptions::batch_size: must be at least 1 (got 0); write {.batch_size = 256}");
  check_contains(thrown_error([&] { return shard.batches({.batch_size = -3}).size(); }), "(got -3)");
  CHECK(thrown_error([&] { return shard.batches({.epoch = -1}).size(); }) ==
        "invalid_config: BatchOptions::epoch: must not be negative (got -1); count epochs from 0");
  CHECK(thrown_error([&] { return shard.batches({.start = {.samples = 11}}).size(); }) ==
        "invalid_config: BatchOptions::start: 11 samples are already done, but the dataset has only 10 rows; use the "
        "dataset that the position was taken from");
  CHECK(thrown_error([&] { return shard.batches({.batch_size = 4, .drop_last = true}).size(); }) ==
        "invalid_config: BatchOptions::batch_size: 10 rows over 3 workers give 3 each: with drop_last, batches of 4 "
        "leave nothing; write at most 3, or .drop_last = false");
  CHECK(shard.batches({.batch_size = 3, .drop_last = true}).size() == 1);
  CHECK(shard.batches({.batch_size = std::numeric_limits<std::int64_t>::max()}).size() == 1);
}

TEST_CASE("a place outside the world and a shard without rows are refused") {
  CHECK(thrown_error([] {
          return DatasetShard{numbered(10), {.rank = Rank{2}, .world_size = WorldSize{2}}}.rows();
        }) == "invalid_config: DatasetShard: rank 2 is not below the world size 2; count ranks from 0");
  check_contains(thrown_error([] {
                   return DatasetShard{numbered(10), {.world_size = WorldSize{0}}}.rows();
                 }),
                 "rank 0 is not below the world size 0");
  CHECK(thrown_error([] {
          return DatasetShard{numbered(2), {.world_size = WorldSize{3}}}.rows();
        }) ==
        "invalid_config: DatasetShard: 2 rows leave nothing for each of 3 workers; use fewer workers or more rows");
}

TEST_CASE("an epoch of which no batch is left is over, and the next one is where the position stands") {
  DatasetShard shard{numbered(10), {.rank = Rank{0}, .world_size = WorldSize{4}}};
  CHECK(shard.batches({.batch_size = 1, .epoch = 2, .start = {2, 9}}).empty());
  CHECK(shard.position() == ShardPosition{3, 0});
}
