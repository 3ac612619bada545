// SPDX-License-Identifier: Apache-2.0
// A function of the program's on each batch of plain rows, in threads.
#include <raytrain/data/mapped_batches.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <latch>
#include <memory>
#include <ranges>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>

#include <doctest/doctest.h>

#include <raytrain/data/dataset_shard.hpp>

#include "../support/thrown_error.hpp"
#include "numbered_rows.hpp"

using namespace raytrain;
using raytrain::testing::check_contains;
using raytrain::testing::thrown_error;

namespace {

auto rows_and_seed(Batch const& batch, std::uint64_t seed) -> std::pair<Rows, std::uint64_t> {
  return {rows_of(batch), seed};
}

using Mapped = MappedBatches<BatchRange, decltype(&rows_and_seed)>;
static_assert(std::input_iterator<Mapped::Iterator> && std::ranges::input_range<Mapped const>);
static_assert(!BatchFunction<int (*)(int), Batch, std::uint64_t>);
static_assert(!BatchFunction<std::unique_ptr<int>, Batch, std::uint64_t>);

auto shard_of(std::size_t rows) -> DatasetShard {
  return {numbered(rows), {.rank = Rank{1}, .world_size = WorldSize{2}, .seed = 7}};
}

}  // namespace

TEST_CASE("what a function makes of batches comes in their order, by any number of threads, and so do positions") {
  for (auto const threads : {0, 1, 3}) {
    CAPTURE(threads);
    auto shard = shard_of(90);
    auto plain = shard_of(90);
    auto const batches = plain.batches({.batch_size = 4, .epoch = 1});
    auto const mapped =
        shard.batches({.batch_size = 4, .epoch = 1}).map(rows_and_seed, {.threads = threads, .prefetch_factor = 4});
    REQUIRE(mapped.size() == batches.size());
    std::size_t index = 0;
    auto expected = batches.begin();
    for (auto const& [rows, seed] : mapped) {
      CHECK(rows == rows_of(*expected));
      CHECK(seed == batches.seed(index));
      CHECK(shard.position() == plain.position());
      ++expected;
      ++index;
    }
    CHECK(index == batches.size());
  }
}

TEST_CASE("batches are made in threads of their own, each with a copy of the function, or in the loop's") {
  auto shard = shard_of(60);
  auto const thread = [](Batch const&) { return std::this_thread::get_id(); };
  auto const batches = shard.batches({.batch_size = 4, .epoch = 0});
  for (auto const id : batches.map(thread, {.threads = 0})) CHECK(id == std::this_thread::get_id());
  // None returns before both have begun.
  auto const both = std::make_shared<std::latch>(2);
  auto const meets = [both, is_first = std::make_shared<std::atomic<int>>(0)](Batch const&) {
    if ((*is_first)++ < 2) both->arrive_and_wait();
    return std::this_thread::get_id();
  };
  std::set<std::thread::id> ids;
  for (auto const id : batches.map(meets, {.threads = 2})) ids.insert(id);
  CHECK(ids.size() == 2);
  CHECK_FALSE(ids.contains(std::this_thread::get_id()));
}

TEST_CASE("what a function throws comes in the place of its batch, and the position is that before it") {
  for (auto const threads : {0, 2}) {
    CAPTURE(threads);
    auto shard = shard_of(80);
    auto const bad_row = shard.batches({.batch_size = 4, .epoch = 0})[2].row(0);
    auto const fails = [bad_row](Batch const& batch) {
      if (batch.row(0) == bad_row) throw std::runtime_error{"as planned"};
      return batch.next_position();
    };
    std::size_t taken = 0;
    ShardPosition last{};
    auto const mapped = shard.batches({.batch_size = 4, .epoch = 0}).map(fails, {.threads = threads});
    CHECK_THROWS_WITH_AS(
        [&] {
          for (auto const position : mapped) {
            ++taken;
            last = position;
          }
        }(),
        "as planned", std::runtime_error);
    CHECK(taken == 2);
    CHECK(shard.position() == last);
  }
}

TEST_CASE("a loop that is left early ends its threads, and begins no other batch than those ahead") {
  auto shard = shard_of(4000);
  auto const calls = std::make_shared<std::atomic<int>>(0);
  auto const counts = [calls](Batch const& batch) {
    ++*calls;
    return batch.size();
  };
  auto const mapped = shard.batches({.batch_size = 2, .epoch = 0}).map(counts, {.threads = 2, .prefetch_factor = 2});
  for (auto const size : mapped) {
    CHECK(size == 2);
    break;
  }
  CHECK(*calls <= 1 + 4);  // the one that was taken, and as many ahead of it
  CHECK(shard.position().samples == 4);
}

TEST_CASE("prefetch options out of range are refused, and say what to write") {
  auto shard = shard_of(8);
  auto const batches = shard.batches({.batch_size = 2, .epoch = 0});
  check_contains(thrown_error([&] { return batches.map(rows_and_seed, {.threads = -1}); }),
                 "PrefetchOptions::threads: must not be negative (got -1)");
}
