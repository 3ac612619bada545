// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/core/identifiers.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/dataset_blocks.hpp>

#include "same_rows.hpp"

namespace raytrain::testing {

/// Checks that shards, positions, and blocks of which some are skipped have the blocks that there are without, bit by
/// bit. `make` makes the range anew each time.
inline void check_skipped_blocks(MakeBlocks const& make, std::mt19937_64& random) {
  std::vector<Dataset> all;
  for (auto const& block : make()) all.push_back(block);
  CAPTURE(all.size());
  auto const check_rest = [&](DatasetBlocks blocks, std::size_t first, std::size_t step) {
    for (auto number = first; number < all.size(); number += step) {
      CAPTURE(number);
      auto const block = blocks.next();
      REQUIRE(block);
      check_same_rows(*block, all[number]);
    }
    CHECK_FALSE(blocks.next());
  };
  auto const workers = static_cast<std::uint32_t>(1 + random() % 5);
  for (std::uint32_t rank = 0; rank < workers; ++rank) {
    CAPTURE(rank);
    check_rest(make().shard(Rank{rank}, WorldSize{workers}), rank, workers);
  }
  auto const passed = random() % (all.size() + 1);
  auto at_position = make();
  at_position.begin_at({0, passed, at_position.source()});
  check_rest(std::move(at_position), passed, 1);
  auto blocks = make();
  for (auto const& block : all) {
    if (random() % 2 == 0) {
      REQUIRE(blocks.skip());
    } else {
      check_same_rows(blocks.next().value(), block);
    }
  }
  CHECK_FALSE(blocks.skip());
}

}  // namespace raytrain::testing
