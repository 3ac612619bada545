// SPDX-License-Identifier: Apache-2.0
// Epochs whose rows are shuffled window by window.
#include <raytrain/data/dataset_shard.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <latch>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/testing/random_seed.hpp>

#include "../support/thrown_error.hpp"
#include "allocation_count.hpp"
#include "numbered_rows.hpp"

using namespace raytrain;
using raytrain::testing::random_seed;
using raytrain::testing::thrown_error;

namespace {

/// Workers that may have virtual shards, and the run's seed.
struct Team {
  std::uint32_t workers = 1;
  std::uint32_t virtual_shards = 0;
  std::uint64_t seed = 7;
};

struct Step {
  Rows rows;  // of all workers, in the order of their shards
  ShardPosition next{};
  friend auto operator==(Step const&, Step const&) -> bool = default;
};

/// The values of the rows, as a program sees them.
auto rows_seen(Batch const& batch) -> Rows {
  std::vector<std::int64_t> values(batch.size());
  batch.gather<std::int64_t>("number", values);
  for (std::size_t i = 0; i < batch.size(); ++i) CHECK(std::cmp_equal(values[i], batch.row(i)));
  return {values.begin(), values.end()};
}

auto steps_of(Dataset const& dataset, Team const& team, BatchOptions const& options) -> std::vector<Step> {
  std::vector<std::map<std::uint32_t, Rows>> parts;  // of each step, by shard
  std::vector<ShardPosition> nexts;
  for (std::uint32_t rank = 0; rank < team.workers; ++rank) {
    DatasetShard shard{dataset,
                       {.rank = Rank{rank},
                        .world_size = WorldSize{team.workers},
                        .virtual_shards = team.virtual_shards,
                        .seed = team.seed}};
    std::size_t step = 0;
    for (auto const& batch : shard.batches(options)) {
      parts.resize(std::max(parts.size(), step + 1));
      nexts.resize(parts.size());
      auto const rows = rows_seen(batch);
      if (batch.is_padding()) {
        CHECK(parts[step].at(batch.turn().shard) == rows);
      } else {
        CHECK(parts[step].emplace(batch.turn().shard, rows).second);
      }
      if (batch.ends_step()) nexts[step++] = batch.next_position();
    }
  }
  std::vector<Step> steps(parts.size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    for (auto const& [shard, rows] : parts[i]) std::ranges::copy(rows, std::back_inserter(steps[i].rows));
    steps[i].next = nexts[i];
  }
  return steps;
}

auto rows_in(std::vector<Step> const& steps) -> Rows {
  Rows rows;
  for (auto const& step : steps) std::ranges::copy(step.rows, std::back_inserter(rows));
  return rows;
}

/// The numbers of an order's windows as they come. Checks that each is complete before the next one begins.
auto windows_of(Rows const& order, std::uint64_t window) -> Rows {
  Rows numbers;
  for (std::size_t at = 0; at < order.size();) {
    auto const number = order[at] / window;
    auto const first = number * window;
    auto const size = static_cast<std::size_t>(std::min<std::uint64_t>(window, order.size() - first));
    REQUIRE(at + size <= order.size());
    Rows rows{order.begin() + static_cast<std::ptrdiff_t>(at), order.begin() + static_cast<std::ptrdiff_t>(at + size)};
    std::ranges::sort(rows);
    Rows expected(size);
    std::iota(expected.begin(), expected.end(), first);
    CHECK(rows == expected);
    numbers.push_back(number);
    at += size;
  }
  return numbers;
}

auto whole_order(std::size_t rows, std::int64_t window, std::uint64_t seed = 7, std::int64_t epoch = 0) -> Rows {
  return rows_in(
      steps_of(numbered(rows), {.seed = seed}, {.batch_size = 13, .epoch = epoch, .shuffle_window = window}));
}

}  // namespace

TEST_CASE(
    "each window is complete before the next one begins, and steps are those of one worker, whatever the workers") {
  auto const seed = random_seed();
  std::mt19937_64 random{seed};
  for (int round = 0; round < 60; ++round) {
    Team const team{.workers = static_cast<std::uint32_t>(1 + random() % 5),
                    .virtual_shards = random() % 2 == 0 ? 0 : static_cast<std::uint32_t>(5 + random() % 4),
                    .seed = seed};
    auto const shards = team.virtual_shards > 0 ? team.virtual_shards : team.workers;
    std::size_t const rows = shards + random() % 300;
    BatchOptions options{.batch_size = static_cast<std::int64_t>(1 + random() % 40),
                         .epoch = static_cast<std::int64_t>(random() % 4),
                         .shuffle_window = static_cast<std::int64_t>(1 + random() % (random() % 2 == 0 ? 12 : 400))};
    CAPTURE(rows);
    CAPTURE(team.workers);
    CAPTURE(team.virtual_shards);
    CAPTURE(*options.batch_size);
    CAPTURE(*options.shuffle_window);
    auto const dataset = numbered(rows);
    auto const taken = rows_in(steps_of(dataset, team, options));
    auto const order = whole_order(rows, *options.shuffle_window, seed, options.epoch);
    auto const window = static_cast<std::uint64_t>(*options.shuffle_window);
    CHECK(windows_of(order, window).size() == (rows + window - 1) / window);
    CHECK(taken == Rows(order.begin(), order.end() - static_cast<std::ptrdiff_t>(rows % shards)));

    if (rows / shards < static_cast<std::size_t>(*options.batch_size)) continue;  // leaves no step
    auto const one = steps_of(dataset, {.seed = seed},
                              {.batch_size = *options.batch_size * shards,
                               .epoch = options.epoch,
                               .shuffle_window = options.shuffle_window,
                               .drop_last = true});
    options.drop_last = true;
    CHECK(steps_of(dataset, team, options) == one);
  }
}

TEST_CASE("from each position, an epoch in windows goes on with exactly the samples that were left") {
  for (std::int64_t const window : {1, 7, 16, 50, 103, 1000}) {
    for (std::uint32_t const shards : {0U, 4U}) {
      auto const dataset = numbered(103);
      BatchOptions options{.batch_size = 6, .epoch = 2, .shuffle_window = window};
      auto const order = whole_order(103, window, 7, 2);
      for (std::uint32_t const before : {1U, 2U, 3U}) {
        options.start = {};
        auto const whole = steps_of(dataset, {.workers = before, .virtual_shards = shards}, options);
        auto done = static_cast<std::ptrdiff_t>(0);
        for (std::size_t i = 0; i + 1 < whole.size(); ++i) {
          options.start = whole[i].next;
          done += static_cast<std::ptrdiff_t>(whole[i].rows.size());
          CHECK(steps_of(dataset, {.workers = before, .virtual_shards = shards}, options) ==
                std::vector(whole.begin() + static_cast<std::ptrdiff_t>(i) + 1, whole.end()));
          for (std::uint32_t const after : {1U, 2U, 3U}) {
            auto const rest = rows_in(steps_of(dataset, {.workers = after, .virtual_shards = shards}, options));
            auto const left_out = (103 - done) % (shards > 0 ? shards : after);
            CHECK(rest == Rows(order.begin() + done, order.end() - left_out));
          }
        }
      }
    }
  }
}

TEST_CASE("the order in windows never changes, or stored positions would lose their meaning") {
  CHECK(whole_order(16, 5, 42) == Rows{8, 6, 9, 5, 7, 2, 3, 0, 1, 4, 14, 11, 10, 13, 12, 15});
}

TEST_CASE("seed, epoch, window size and the window's number each give rows another order") {
  CHECK(whole_order(100, 25, 1) == whole_order(100, 25, 1));
  CHECK(whole_order(100, 25, 1) != whole_order(100, 25, 2));
  CHECK(whole_order(100, 25, 1, 0) != whole_order(100, 25, 1, 1));
  CHECK(whole_order(100, 200) != whole_order(100, 100));
  CHECK(windows_of(whole_order(100, 200), 200) == Rows{0});
  std::set<Rows> within;
  std::set<std::uint64_t> first_windows;
  for (std::int64_t epoch = 0; epoch < 20; ++epoch) {
    auto const order = whole_order(100, 25, 3, epoch);
    first_windows.insert(windows_of(order, 25).front());
    for (std::ptrdiff_t at = 0; at < 100; at += 25) {
      Rows rows{order.begin() + at, order.begin() + at + 25};
      for (auto& row : rows) row %= 25;
      CHECK(within.insert(rows).second);
    }
  }
  CHECK(first_windows.size() == 4);
}

TEST_CASE(
    "threads that ask for batches some places before or after their turn get those that a loop gets, and twice the "
    "same") {
  auto const seed = random_seed();
  auto const dataset = numbered(5000);
  for (std::int64_t const window : {3, 64, 1000}) {
    DatasetShard shard{dataset, {}};
    BatchOptions const options{.batch_size = 16, .shuffle_window = window};
    std::vector<Rows> expected;
    for (auto const& batch : shard.batches(options)) expected.push_back(rows_seen(batch));
    auto const range = shard.batches(options);
    for (int pass = 0; pass < 2; ++pass) {
      std::vector<std::size_t> indices(range.size());
      std::iota(indices.begin(), indices.end(), std::size_t{0});
      // As of threads that prefetch: a few places before or after their turn.
      std::mt19937_64 random{seed};
      for (std::size_t i = 0; i + 8 < indices.size(); i += 8) {
        std::shuffle(indices.begin() + static_cast<std::ptrdiff_t>(i),
                     indices.begin() + static_cast<std::ptrdiff_t>(i) + 8, random);
      }
      std::vector<Rows> seen(range.size());
      std::latch all_here{4};
      {
        std::vector<std::jthread> threads;
        for (std::size_t thread = 0; thread < 4; ++thread) {
          threads.emplace_back([&, thread] {
            all_here.arrive_and_wait();
            for (auto i = thread; i < indices.size(); i += 4) {
              auto const batch = range[indices[i]];
              for (std::size_t row = 0; row < batch.size(); ++row) seen[indices[i]].push_back(batch.row(row));
            }
          });
        }
      }
      CHECK(seen == expected);
    }
  }
}

TEST_CASE("batches keep their rows when their range's windows have moved on") {
  DatasetShard shard{numbered(1000), {}};
  auto const range = shard.batches({.batch_size = 30, .shuffle_window = 50});
  std::vector<Batch> batches;
  for (auto const& batch : range) batches.push_back(batch);
  for (std::size_t i = 0; i < batches.size(); ++i) CHECK(rows_seen(batches[i]) == rows_seen(range[i]));
}

TEST_CASE("in a pass over an epoch each window is computed once, by one worker and by several in step") {
  constexpr std::size_t windows = 100;
  constexpr std::size_t window = 1000;
  constexpr std::size_t most_per_window = 4;  // its rows, who shares them, and its places in two maps
  for (std::uint32_t const workers : {1U, 4U}) {
    std::vector<BatchRange> ranges;
    for (std::uint32_t rank = 0; rank < workers; ++rank) {
      DatasetShard shard{Dataset::of_rows(windows * window), {.rank = Rank{rank}, .world_size = WorldSize{workers}}};
      ranges.push_back(
          shard.batches({.batch_size = 40 / workers, .shuffle_window = static_cast<std::int64_t>(window)}));
    }
    for (std::size_t const swapped : {0U, 1U}) {  // threads that prefetch ask for the next batch first
      CAPTURE(swapped);
      auto const before = allocation_count();
      for (std::size_t i = 0; i < ranges.front().size(); ++i) {
        for (auto const& range : ranges) CHECK(range[i ^ swapped].size() == 40 / workers);
      }
      // Each worker has a place of its own for a window.
      CHECK(allocation_count() - before <= windows * (most_per_window + workers - 1));
    }
  }
}

TEST_CASE("the order of an epoch of a thousand million rows takes the memory of some windows") {
  constexpr std::size_t rows = 1'000'000'000;
  constexpr std::size_t window = 65'536;
  DatasetShard shard{Dataset::of_rows(rows), {.rank = Rank{1}, .world_size = WorldSize{2}}};
  forget_peak();
  auto const before = allocated_bytes();
  auto const range = shard.batches({.batch_size = 256, .shuffle_window = static_cast<std::int64_t>(window)});
  for (std::size_t i = 0; i < 2000; ++i) CHECK(range[i].row(0) < rows);
  CHECK(range[range.size() - 1].row(0) < rows);
  auto const of_windows = rows / window * sizeof(std::uint64_t);
  CHECK(peak_allocated_bytes() - before < of_windows + 4 * window * sizeof(std::uint64_t));
}

TEST_CASE("a window below 1 and one of rows that are not shuffled are refused, and a window may be of any size above") {
  DatasetShard shard{numbered(10), {}};
  CHECK(thrown_error([&] { return shard.batches({.shuffle_window = 0}).size(); }) ==
        "invalid_config: BatchOptions::shuffle_window: must be at least 1 (got 0); write {.shuffle_window = 65536}");
  CHECK(thrown_error([&] { return shard.batches({.shuffle = false, .shuffle_window = 64}).size(); }) ==
        "invalid_config: BatchOptions::shuffle_window: is 64, and .shuffle is false: rows as they lie are not "
        "shuffled; write .shuffle = true, or leave the window out");
  CHECK(windows_of(whole_order(10, std::numeric_limits<std::int64_t>::max()), 10) == Rows{0});
}

TEST_CASE("the texts of orders never change, or stored ones would be taken for others") {
  CHECK(BatchOptions{}.order() == "shuffled");
  CHECK(BatchOptions{.shuffle = false}.order() == "as they lie");
  CHECK(BatchOptions{.shuffle_window = 65'536}.order() == "shuffled in windows of 65536");
}

TEST_CASE(
    "a position within an epoch is refused when its rows came in another order, and one of no known order is not") {
  auto const goes_on = [](ShardOptions const& place, BatchOptions const& options) {
    return thrown_error([&] { return DatasetShard{numbered(10), place}.batches(options).size(); });
  };
  BatchOptions const shuffled{.batch_size = 2, .epoch = 3, .start = {3, 4}};
  BatchOptions const windows{.batch_size = 2, .epoch = 3, .shuffle_window = 4, .start = {3, 4}};
  BatchOptions const unshuffled{.batch_size = 2, .epoch = 3, .shuffle = false, .start = {3, 4}};
  ShardOptions const was_shuffled{.position_before = ShardPosition{3, 4}, .order_before = "shuffled"};
  CHECK(goes_on(was_shuffled, unshuffled) ==
        "invalid_config: BatchOptions::start: 4 samples of epoch 3 are done of rows that came shuffled, and they come "
        "as they lie now; write .shuffle and .shuffle_window as they were, or begin that epoch anew, without a start");
  raytrain::testing::check_contains(goes_on(was_shuffled, windows), "and they come shuffled in windows of 4 now");
  raytrain::testing::check_contains(
      goes_on({.position_before = ShardPosition{3, 4}, .order_before = "shuffled in windows of 5"}, windows),
      "came shuffled in windows of 5, and they come shuffled in windows of 4 now");
  CHECK(DatasetShard{numbered(10), was_shuffled}.batches(shuffled).size() == 3);
  auto boundary = windows;
  boundary.start = {3, 0};
  CHECK(DatasetShard{numbered(10), {.position_before = ShardPosition{3, 0}, .order_before = "shuffled"}}
            .batches(boundary)
            .size() == 5);
  CHECK(DatasetShard{numbered(10), {.position_before = ShardPosition{3, 4}}}.batches(windows).size() == 3);
  // The program's own position: the checkpoint says nothing of it.
  CHECK(DatasetShard{numbered(10), {.position_before = ShardPosition{3, 2}, .order_before = "shuffled"}}
            .batches(windows)
            .size() == 3);
}
