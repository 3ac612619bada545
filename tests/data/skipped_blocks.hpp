// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/core/identifiers.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/dataset_blocks.hpp>

#include "same_rows.hpp"

namespace raytrain::testing {

/// Checks that two blocks have the same columns and rows, bit by bit, and the same texts, whose codes follow also from
/// the blocks that were parsed with them.
inline void check_same_block(Dataset const& one, Dataset const& other) {
  REQUIRE(one.rows() == other.rows());
  REQUIRE(one.column_names() == other.column_names());
  for (auto const& column : one.columns()) {
    auto const& same = other.column(column.name());
    CAPTURE(column.name());
    CHECK(same.type_name() == column.type_name());
    CHECK(same.row_shape() == column.row_shape());
    if (!column.is_text()) {
      CHECK(same_bytes(same.bytes(), column.bytes()));
      continue;
    }
    REQUIRE(same.is_text());
    for (std::size_t row = 0; row < one.rows(); ++row) REQUIRE(same.text(row) == column.text(row));
  }
}

/// A reader of the blocks of a file, one after the other.
struct BlockReader {
  std::function<std::optional<Dataset>()> next;
  std::function<bool()> skip{};
};

/// Checks that readers of which the blocks that `takes` refuses are skipped have the others as `whole` has them all.
/// `check_same`: that two blocks are.
template <class Takes, class CheckSame>
void check_readers(BlockReader const& whole, std::vector<BlockReader> const& readers, Takes const& takes,
                   CheckSame const& check_same) {
  for (std::uint64_t block = 0;; ++block) {
    CAPTURE(block);
    auto const rows = whole.next();
    for (auto const& reader : readers) {
      if (!takes(block)) {
        REQUIRE(reader.skip() == rows.has_value());
        continue;
      }
      auto const taken = reader.next();
      REQUIRE(taken.has_value() == rows.has_value());
      if (rows) check_same(*taken, *rows);
    }
    if (!rows) return;
  }
}

/// Checks that shards, positions, and blocks of which some are skipped have the blocks that there are without. `make`
/// makes the range anew each time.
inline void check_skipped_blocks(MakeBlocks const& make, std::mt19937_64& random) {
  std::vector<Dataset> all;
  for (auto const& block : make()) all.push_back(block);
  CAPTURE(all.size());
  auto const check_rest = [&](DatasetBlocks blocks, std::size_t first, std::size_t step) {
    for (auto number = first; number < all.size(); number += step) {
      CAPTURE(number);
      auto const block = blocks.next();
      REQUIRE(block);
      check_same_block(*block, all[number]);
    }
    CHECK_FALSE(blocks.next());
  };
  auto const workers = static_cast<std::uint32_t>(1 + random() % 5);
  for (std::uint32_t rank = 0; rank < workers; ++rank) {
    CAPTURE(rank);
    check_rest(make().shard(Rank{rank}, WorldSize{workers}), rank, workers);
    check_rest(make().prefetch(1).shard(Rank{rank}, WorldSize{workers}), rank, workers);
  }
  auto const passed = random() % (all.size() + 1);
  auto at_position = random() % 2 == 0 ? make() : make().prefetch(2);
  at_position.begin_at({0, passed, at_position.source()});
  check_rest(std::move(at_position), passed, 1);
  auto blocks = make();
  for (auto const& block : all) {
    if (random() % 2 == 0) {
      REQUIRE(blocks.skip());
    } else {
      check_same_block(blocks.next().value(), block);
    }
  }
  CHECK_FALSE(blocks.skip());
}

}  // namespace raytrain::testing
