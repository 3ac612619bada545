// SPDX-License-Identifier: Apache-2.0
#include <raytrain/data/blocks_position.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <zlib.h>

#include <raytrain/core/identifiers.hpp>
#include <raytrain/data/csv.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/dataset_blocks.hpp>
#include <raytrain/data/write_csv.hpp>
#include <raytrain/message/object_bytes.hpp>
#include <raytrain/testing/random_seed.hpp>

#include "../support/temporary_folder.hpp"
#include "../support/text_files.hpp"
#include "../support/thrown_error.hpp"
#include "gzip_file.hpp"
#include "numbered_blocks.hpp"

namespace {

using namespace raytrain;
using namespace raytrain::testing;

static_assert(Transferable<BlocksPosition>);  // a part of a TrainingState

/// So many files, some of them gzip, whose rows are numbered from 0 on. Returns the number of rows.
auto write_numbered_files(std::filesystem::path const& folder, std::mt19937_64& random) -> std::size_t {
  std::size_t rows = 0;
  auto const files = 1 + random() % 4;
  for (std::size_t file = 0; file < files; ++file) {
    std::string text = "number,city\n";
    for (auto left = 1 + random() % 300; left > 0; --left) {
      text += fmt::format("{},city{}\n", rows, random() % 5);
      ++rows;
    }
    auto const path = folder / fmt::format("part-{}", file);
    if (random() % 2 == 0) {
      write_text(path, text);
    } else {
      write_gzip(path, text);
    }
  }
  return rows;
}

void append(Numbers& numbers, Dataset const& block) {
  auto const of_block = block.column("number").as<float>();
  numbers.insert(numbers.end(), of_block.begin(), of_block.end());
}

/// What is left of a checkpoint after the end of the process.
auto stored(BlocksPosition const& position) -> BlocksPosition { return from_bytes<BlocksPosition>(to_bytes(position)); }

}  // namespace

TEST_CASE("who goes on at a position, stopped anywhere and again and again, has each row once, and in order") {
  std::mt19937_64 random{random_seed()};
  for (auto round = 0; round < 30; ++round) {
    TemporaryFolder const folder;
    (void)write_numbered_files(folder.path(), random);
    auto const size = 1 + random() % 80;
    CAPTURE(size);
    auto mapped_rows = std::size_t{0};
    auto const plain = [&] { return csv_blocks(folder.path(), {}, size); };
    auto const mapped = [&](DatasetBlocks const& blocks) {
      return blocks.map("half", [&](Dataset const& block) {
        mapped_rows += block.rows();
        return block.head((block.rows() + 1) / 2);
      });
    };
    auto const shard = [](DatasetBlocks const& blocks, std::uint32_t rank, std::uint32_t workers) {
      return blocks.shard(Rank{rank}, WorldSize{workers});
    };
    std::vector<std::function<DatasetBlocks()>> const ranges{
        plain,
        [&] { return mapped(plain()); },
        [&] { return shard(plain(), 1, 3); },
        [&] { return mapped(shard(plain(), 0, 2)); },
        [&] { return shard(mapped(plain()), 2, 3); },
        [&] { return shard(shard(plain(), 1, 2), 0, 2); },
        [&] { return shard(plain(), 0, 1); },
    };
    for (std::size_t number = 0; number < ranges.size(); ++number) {
      CAPTURE(number);
      auto const& make = ranges[number];
      mapped_rows = 0;
      auto const undisturbed = numbers_in(make());
      auto const mapped_once = mapped_rows;
      mapped_rows = 0;
      Numbers taken;
      BlocksPosition position{.epoch = 7};
      for (auto is_over = false; !is_over;) {
        auto blocks = make();
        blocks.begin_at(stored(position));
        CHECK(blocks.position() == position);
        for (auto left = 1 + random() % 4; left > 0 && !is_over; --left) {
          auto const block = blocks.next();
          is_over = !block;
          if (block) append(taken, *block);
        }
        position = blocks.position();
        CHECK(position.epoch == 7);
      }
      CHECK(taken == undisturbed);
      CHECK(mapped_rows == mapped_once);  // nothing is made of the blocks before
    }
  }
}

TEST_CASE("workers that have taken equally many blocks go on in any other number of workers, each row once") {
  std::mt19937_64 random{random_seed()};
  for (auto round = 0; round < 200; ++round) {
    auto const count = static_cast<std::int32_t>(random() % 40);
    CAPTURE(count);
    BlocksPosition position;
    std::vector<int> times(static_cast<std::size_t>(count));
    while (true) {
      auto const workers = static_cast<std::uint32_t>(1 + random() % 4);
      std::vector<DatasetBlocks> shards;
      for (std::uint32_t rank = 0; rank < workers; ++rank) {
        shards.push_back(numbered_blocks(count).shard(Rank{rank}, WorldSize{workers}));
        shards.back().begin_at(stored(position));
      }
      auto is_over = false;
      for (auto left = random() % 4; left > 0 && !is_over; --left) {
        for (auto& shard : shards) {
          auto const block = shard.next();
          is_over = is_over || !block;
          if (block) ++times[static_cast<std::size_t>(block->column("number").as<float>()[0])];
        }
      }
      if (is_over) break;
      for (auto const& shard : shards) CHECK(shard.position() == shards.front().position());
      position = shards.front().position();
    }
    CHECK(times == std::vector<int>(times.size(), 1));
  }
}

TEST_CASE("a position in other blocks is refused with both sources, and that of an epoch's beginning is not") {
  TemporaryFolder const folder;
  auto const file = folder.path() / "a.csv";
  write_text(file, "number\n0\n1\n2\n");
  auto const blocks_of = [&](std::size_t size) { return csv_blocks(file, {}, size); };
  auto blocks = blocks_of(1);
  CHECK(blocks.position() == BlocksPosition{});
  REQUIRE(blocks.next());
  auto const position = blocks.position();
  CHECK(position == BlocksPosition{0, 1, blocks.source()});
  auto const refused = [&](DatasetBlocks other, BlocksPosition const& at) {
    auto text = thrown_error([&] { other.begin_at(at); });
    CHECK_FALSE(other.position() == at);
    return text;
  };
  auto const of_two = refused(blocks_of(2), position);
  check_contains(of_two,
                 "invalid_data: DatasetBlocks::begin_at: the position is 1 blocks into epoch 0 of another source: CSV");
  check_contains(of_two, "in blocks of 1 rows");
  check_contains(of_two, "now it is CSV");
  check_contains(of_two, "in blocks of 2 rows");
  check_contains(of_two,
                 "go on with the same files and options, or begin the epoch anew by BlocksPosition{.epoch = 0}");
  auto const as_it_is = [](Dataset const& block) { return block; };
  check_contains(refused(blocks_of(1).map("other", as_it_is), position), "; \"other\"; go on with");
  write_text(file, "number\n0\n1\n2\n3\n");
  check_contains(refused(blocks_of(1), position), "of another source: CSV");
  std::uint64_t blocks_in_all = 0;
  for (auto counted = blocks_of(1); counted.next();) ++blocks_in_all;
  for (auto const& fresh : {BlocksPosition{.epoch = 3}, BlocksPosition{3, 0, "others"}}) {
    auto again = blocks_of(1);
    again.begin_at(fresh);
    CHECK(numbers_in(again) == Numbers{0, 1, 2, 3});
    CHECK(again.position() == BlocksPosition{3, blocks_in_all, again.source()});
  }
}

TEST_CASE(
    "a position behind more blocks than there are is refused, and gives no rows; that behind all of them gives none") {
  auto blocks = numbered_blocks(3);
  auto const refused = thrown_error([&] { blocks.begin_at({0, 4, "numbered"}); });
  check_contains(refused,
                 "invalid_data: DatasetBlocks::begin_at: the position is behind 4 blocks, and there are 3: numbered");
  CHECK(thrown_error([&] { (void)blocks.next(); }) == refused);
  auto all = numbered_blocks(3);
  all.begin_at({0, 3, "numbered"});
  CHECK_FALSE(all.next());
  // Of 3 blocks rank 0 has had 2, and in that round there was none for rank 1.
  auto shard = numbered_blocks(3).shard(Rank{0}, WorldSize{2});
  shard.begin_at({0, 4, "numbered"});
  CHECK_FALSE(shard.next());
}

TEST_CASE("a range that was begun begins at no position, and one that begins at one is not all blocks") {
  auto blocks = numbered_blocks(3);
  REQUIRE(blocks.next());
  check_contains(thrown_error([&] { blocks.begin_at({}); }),
                 "invalid_call: DatasetBlocks::begin_at: some of the blocks were taken already; make the range anew");
  auto rest = numbered_blocks(3);
  auto const mapped = rest.map("as it is", [](Dataset const& block) { return block; });
  rest.begin_at({0, 1, "numbered"});
  TemporaryFolder const folder;
  check_contains(thrown_error([&] { write_csv(rest, folder.path() / "x.csv"); }), "some of the blocks were taken");
  check_contains(thrown_error([&] { (void)numbers_in(mapped); }), "DatasetBlocks::map: some of the blocks were taken");
  auto taken_below = numbered_blocks(3);
  auto shard = taken_below.shard(Rank{0}, WorldSize{2});
  REQUIRE(taken_below.next());
  check_contains(thrown_error([&] {
                   shard.begin_at({0, 2, "numbered"});
                 }),
                 "DatasetBlocks::shard: some of the blocks were taken");
}

TEST_CASE("a file that is changed while a range passes over blocks is named") {
  TemporaryFolder const folder;
  auto const file = folder.path() / "a.csv";
  write_text(file, "number\n0\n1\n2\n");
  auto before = csv_blocks(file, {}, 1);
  REQUIRE(before.next());
  auto blocks = csv_blocks(file, {}, 1);
  write_text(file, "number\n5\n");
  check_contains(thrown_error([&] { blocks.begin_at(before.position()); }), "a.csv': it was changed meanwhile");
}
