// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/shard_position.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/dataset_shard.hpp>
#include <raytrain/testing/random_seed.hpp>

#include "../support/thrown_error.hpp"
#include "numbered_rows.hpp"

using raytrain::BatchOptions;
using raytrain::Dataset;
using raytrain::DatasetShard;
using raytrain::Rank;
using raytrain::Remainder;
using raytrain::ShardPosition;
using raytrain::WorldSize;
using raytrain::testing::random_seed;
using raytrain::testing::thrown_error;

namespace {

struct PaddedStep {
  std::map<std::uint32_t, Rows> rows_of_shards;  ///< In their order.
  ShardPosition next;
};

/// An epoch as all workers see it; also checks that they agree on positions, and each shard has equally many rows.
auto steps_of(Dataset const& dataset, std::uint32_t workers, std::uint32_t virtual_shards, BatchOptions const& options)
    -> std::vector<PaddedStep> {
  std::vector<PaddedStep> steps;
  for (std::uint32_t rank = 0; rank < workers; ++rank) {
    DatasetShard shard{
        dataset, {.rank = Rank{rank}, .world_size = WorldSize{workers}, .virtual_shards = virtual_shards, .seed = 3}};
    std::size_t step = 0;
    for (auto const batch : shard.batches(options)) {
      steps.resize(std::max(steps.size(), step + 1));
      Rows rows;
      for (std::size_t i = 0; i < batch.size(); ++i) {
        rows.push_back(static_cast<std::uint64_t>(dataset.column("number").as<std::int64_t>()[batch.row(i)]));
      }
      if (!batch.is_padding()) CHECK(steps[step].rows_of_shards.emplace(batch.turn().shard, rows).second);
      CHECK(rows.size() == steps[step].rows_of_shards.begin()->second.size());
      if (!batch.ends_step()) continue;
      if (rank == 0) steps[step].next = batch.next_position();
      CHECK(steps[step].next == batch.next_position());
      CHECK(shard.position() == batch.next_position());
      ++step;
    }
    CHECK(step == steps.size());
  }
  return steps;
}

/// One after the other, as one worker would take them.
auto in_order(std::vector<PaddedStep> const& steps) -> Rows {
  Rows all;
  for (auto const& step : steps) {
    for (auto const& [shard, rows] : step.rows_of_shards) all.insert(all.end(), rows.begin(), rows.end());
  }
  return all;
}

/// Of an epoch whose rows come in this order, with those of its begin that come again.
auto padded(Rows order, std::uint64_t parts, std::size_t done = 0) -> Rows {
  auto const missing = (parts - (order.size() - done) % parts) % parts;
  for (std::size_t i = 0; i < missing; ++i) order.push_back(order[i]);
  return order;
}

struct Order {
  bool shuffle;
  std::optional<std::int64_t> window;
};

auto const all_orders = {Order{false, {}}, Order{true, {}}, Order{true, 4}};

auto options_of(Order const& order, std::int64_t batch_size) -> BatchOptions {
  return {.batch_size = batch_size,
          .epoch = 1,
          .shuffle = order.shuffle,
          .shuffle_window = order.window,
          .remainder = Remainder::pad};
}

}  // namespace

TEST_CASE("a padded epoch has every row, and of those at its begin fewer again than there are workers") {
  auto const seed = random_seed();
  std::mt19937_64 random{seed};
  for (auto const& order : all_orders) {
    for (int round = 0; round < 40; ++round) {
      auto const workers = static_cast<std::uint32_t>(1 + random() % 7);
      auto const dataset = numbered(workers + random() % 60);
      auto const options = options_of(order, static_cast<std::int64_t>(1 + random() % 20));
      CAPTURE(dataset.rows());
      CAPTURE(workers);
      CAPTURE(*options.batch_size);
      auto const whole = in_order(steps_of(dataset, 1, 0, options));
      CHECK(whole.size() == dataset.rows());
      CHECK(in_order(steps_of(dataset, workers, 0, options)) == padded(whole, workers));
    }
  }
}

TEST_CASE("ten rows that are not shuffled all come in each epoch of three workers, where they are padded") {
  for (std::int64_t const epoch : {0, 1, 2}) {
    BatchOptions const options{.epoch = epoch, .shuffle = false, .remainder = Remainder::pad};
    auto const steps = steps_of(numbered(10), 3, 0, options);
    REQUIRE(steps.size() == 1);
    CHECK(steps[0].rows_of_shards ==
          std::map<std::uint32_t, Rows>{{0, {0, 1, 2, 3}}, {1, {4, 5, 6, 7}}, {2, {8, 9, 0, 1}}});
    CHECK(steps[0].next == ShardPosition{epoch + 1, 0});
  }
}

TEST_CASE("from each position of a padded epoch any number of workers goes on, and every row comes") {
  auto const seed = random_seed();
  std::mt19937_64 random{seed};
  for (auto const& order : all_orders) {
    for (int round = 0; round < 20; ++round) {
      auto const before = static_cast<std::uint32_t>(1 + random() % 5);
      auto const after = static_cast<std::uint32_t>(1 + random() % 5);
      auto const dataset = numbered(20 + random() % 50);
      auto options = options_of(order, static_cast<std::int64_t>(1 + random() % 6));
      CAPTURE(dataset.rows());
      CAPTURE(before);
      CAPTURE(after);
      CAPTURE(*options.batch_size);
      auto const whole = in_order(steps_of(dataset, 1, 0, options));
      Rows done;
      for (auto const& step : steps_of(dataset, before, 0, options)) {
        auto const rows = in_order({step});
        done.insert(done.end(), rows.begin(), rows.end());
        if (step.next.epoch > options.epoch) break;
        CHECK(step.next.samples == done.size());
        options.start = step.next;
        auto all = done;
        auto const rest = in_order(steps_of(dataset, after, 0, options));
        all.insert(all.end(), rest.begin(), rest.end());
        CHECK(all == padded(whole, after, done.size()));
      }
      CHECK(done == padded(whole, before));
    }
  }
}

TEST_CASE("virtual shards of a padded epoch have the same rows with any number of workers") {
  for (auto const& order : all_orders) {
    auto const options = options_of(order, 3);
    auto const expected = steps_of(numbered(43), 5, 5, options);
    CHECK(in_order(expected) == padded(in_order(steps_of(numbered(43), 1, 0, options)), 5));
    for (std::uint32_t const workers : {1U, 2U, 3U, 4U}) {
      auto const found = steps_of(numbered(43), workers, 5, options);
      REQUIRE(found.size() == expected.size());
      for (std::size_t i = 0; i < found.size(); ++i) {
        CHECK(found[i].rows_of_shards == expected[i].rows_of_shards);
        CHECK(found[i].next == expected[i].next);
      }
    }
  }
}

TEST_CASE("with a global batch a padded epoch has as many steps with any number of workers") {
  for (std::uint32_t const workers : {1U, 2U, 3U, 6U}) {
    BatchOptions const options{.global_batch_size = 12, .remainder = Remainder::pad};
    auto const steps = steps_of(numbered(43), workers, 0, options);
    CHECK(steps.size() == 4);
    CHECK(in_order(steps) == padded(in_order(steps_of(numbered(43), 1, 0, options)), workers));
  }
}

TEST_CASE("a dataset that is not split, and one that can be divided, are as they are without padding") {
  BatchOptions const options{.batch_size = 4, .shuffle = false, .remainder = Remainder::pad};
  DatasetShard whole{numbered(10), {.rank = Rank{1}, .world_size = WorldSize{3}, .split = false}};
  std::size_t rows = 0;
  for (auto const batch : whole.batches(options)) rows += batch.size();
  CHECK(rows == 10);
  DatasetShard divided{numbered(9), {.rank = Rank{1}, .world_size = WorldSize{3}}};
  CHECK(divided.batches(options)[0].contiguous<std::int64_t>("number"));
}

TEST_CASE("of rows as they lie only a batch on both sides of the epoch's end is not contiguous") {
  /// By rank and step.
  auto const contiguous = [](std::size_t rows, std::int64_t batch_size) {
    std::vector<bool> found;
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      DatasetShard shard{numbered(rows), {.rank = Rank{rank}, .world_size = WorldSize{3}}};
      for (auto const batch :
           shard.batches({.batch_size = batch_size, .shuffle = false, .remainder = Remainder::pad})) {
        auto const values = batch.contiguous<std::int64_t>("number");
        found.push_back(values.has_value());
        if (!values) continue;
        REQUIRE(values->size() == batch.size());
        for (std::size_t i = 0; i < batch.size(); ++i) {
          CHECK(static_cast<std::uint64_t>((*values)[i]) == batch.row(i));
        }
      }
    }
    return found;
  };
  CHECK(contiguous(20, 2) == std::vector<bool>(12, true));  // the last step has the rows 18, 19 and 0
  CHECK(contiguous(10, 2) == std::vector<bool>(6, true));   // the last step has the rows 6, 7; 8, 9; and 0, 1
  CHECK(contiguous(10, 4) == std::vector{true, true, false});
}

TEST_CASE("padding is refused together with drop_last") {
  DatasetShard shard{numbered(10), {}};
  CHECK(thrown_error([&] { return shard.batches({.drop_last = true, .remainder = Remainder::pad}).size(); }) ==
        "invalid_config: BatchOptions::remainder: is Remainder::pad, and .drop_last is true: an epoch that is padded "
        "has a last batch, which may be smaller; write one of them");
}
