// SPDX-License-Identifier: Apache-2.0
// Epochs whose steps are of so many samples, whatever the number of workers.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/data/dataset_shard.hpp>

#include "../support/thrown_error.hpp"
#include "numbered_rows.hpp"

using namespace raytrain;
using raytrain::testing::check_contains;
using raytrain::testing::thrown_error;

namespace {

/// The rows of each step, those of rank 0 first.
auto steps_of(std::uint32_t workers, BatchOptions const& options, std::uint32_t virtual_shards = 0)
    -> std::vector<Rows> {
  std::vector<Rows> steps;
  for (std::uint32_t rank = 0; rank < workers; ++rank) {
    DatasetShard shard{
        numbered(100),
        {.rank = Rank{rank}, .world_size = WorldSize{workers}, .virtual_shards = virtual_shards, .seed = 3}};
    std::size_t step = 0;
    for (auto const batch : shard.batches(options)) {
      steps.resize(std::max(steps.size(), step + 1));
      for (std::size_t i = 0; i < batch.size() && !batch.is_padding(); ++i) steps[step].push_back(batch.row(i));
      if (batch.ends_step()) ++step;
    }
  }
  return steps;
}

auto refusal(ShardOptions const& place, BatchOptions const& options) -> std::string {
  return thrown_error([&] { return DatasetShard{numbered(100), place}.batches(options).size(); });
}

}  // namespace

TEST_CASE("a global batch has the same samples in every step with any number of workers that divides it") {
  auto const alone = steps_of(1, {.global_batch_size = 12, .epoch = 2});
  CHECK(alone == steps_of(1, {.batch_size = 12, .epoch = 2}));
  CHECK(alone.size() == 9);
  for (auto const workers : {2U, 4U}) CHECK(steps_of(workers, {.global_batch_size = 12, .epoch = 2}) == alone);
}

TEST_CASE("from the middle of an epoch another number of workers takes the steps that were left") {
  auto const all = steps_of(2, {.global_batch_size = 20});
  auto const rest = steps_of(4, {.global_batch_size = 20, .start = {0, 40}});
  CHECK(rest == std::vector<Rows>(all.begin() + 2, all.end()));
}

TEST_CASE("with virtual shards a global batch is divided over them, and any number of workers may take it") {
  auto sorted_steps = [](std::uint32_t workers) {
    auto steps = steps_of(workers, {.global_batch_size = 20}, 4);
    for (auto& step : steps) std::sort(step.begin(), step.end());
    return steps;
  };
  auto const alone = sorted_steps(1);
  CHECK(alone.size() == 5);
  CHECK(alone.front().size() == 20);
  for (auto const workers : {2U, 3U, 4U}) CHECK(sorted_steps(workers) == alone);
  CHECK(refusal({.world_size = WorldSize{3}, .virtual_shards = 8}, {.global_batch_size = 20}) ==
        "invalid_config: BatchOptions::global_batch_size: 20 samples cannot be divided equally over 8 virtual shards; "
        "write 16 or 24");
  ShardOptions const elastic{.workers = {WorldSize{1}, WorldSize{4}, WorldSize{4}}, .virtual_shards = 4};
  CHECK(DatasetShard{numbered(100), elastic}.batches({.global_batch_size = 20}).size() == 20);
}

TEST_CASE("a global batch that the workers cannot share equally is refused with the numbers, and what to write") {
  CHECK(
      refusal({.world_size = WorldSize{3}}, {.global_batch_size = 64}) ==
      "invalid_config: BatchOptions::global_batch_size: 64 samples cannot be divided equally over 3 workers; write 63 "
      "or 66");
  check_contains(refusal({.world_size = WorldSize{3}}, {.global_batch_size = 2}), "over 3 workers; write 3");
}

TEST_CASE("in an elastic run a global batch is refused that some number of workers cannot share equally") {
  ShardOptions const place{.world_size = WorldSize{2}, .workers = {WorldSize{2}, WorldSize{4}, WorldSize{4}}};
  CHECK(
      refusal(place, {.global_batch_size = 64}) ==
      "invalid_config: BatchOptions::global_batch_size: 64 samples cannot be divided equally over 3 workers, of which "
      "this run may have 2 to 4; write 60 or 72, or set ScalingConfig::virtual_shards to a number that divides it");
  CHECK(DatasetShard{numbered(100), place}.batches({.global_batch_size = 60})[0].size() == 30);
  // What divides by all of 2 to 64 is nothing to write.
  check_contains(refusal({.world_size = WorldSize{2}, .workers = {WorldSize{2}, WorldSize{64}, WorldSize{64}}},
                         {.global_batch_size = 64}),
                 "2 to 64; set ScalingConfig::virtual_shards to a number that divides it");
}

TEST_CASE("of a dataset that is not split each worker takes the whole global batch, also in an elastic run") {
  DatasetShard shard{numbered(100),
                     {.rank = Rank{1},
                      .world_size = WorldSize{3},
                      .workers = {WorldSize{1}, WorldSize{3}, WorldSize{3}},
                      .split = false}};
  CHECK(shard.batches({.global_batch_size = 20})[0].size() == 20);
}

TEST_CASE("a global batch beside a batch size is refused with both, and so is one without samples") {
  CHECK(refusal({}, {.batch_size = 64, .global_batch_size = 256}) ==
        "invalid_config: BatchOptions: has a batch_size, 64, and a global_batch_size, 256, of which one follows from "
        "the other; write one of them");
  CHECK(
      refusal({}, {.global_batch_size = 0}) ==
      "invalid_config: BatchOptions::global_batch_size: must be at least 1 (got 0); write {.global_batch_size = 256}");
  CHECK(
      refusal({.world_size = WorldSize{4}}, {.global_batch_size = 128, .drop_last = true}) ==
      "invalid_config: BatchOptions::global_batch_size: 100 rows over 4 workers give 25 each: with drop_last, batches "
      "of 32 leave nothing; write at most 100, or .drop_last = false");
}

TEST_CASE("without any size a batch has 256 samples") {
  DatasetShard shard{numbered(600), {.world_size = WorldSize{2}}};
  CHECK(shard.batches({})[0].size() == 256);
}
