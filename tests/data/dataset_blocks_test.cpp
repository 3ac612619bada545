// SPDX-License-Identifier: Apache-2.0
#include <raytrain/data/dataset_blocks.hpp>

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/core/identifiers.hpp>
#include <raytrain/data/blocks_position.hpp>
#include <raytrain/data/csv.hpp>
#include <raytrain/data/dataset.hpp>

#include "../support/temporary_folder.hpp"
#include "../support/text_files.hpp"
#include "../support/thrown_error.hpp"
#include "numbered_blocks.hpp"

namespace {

using namespace raytrain;
using namespace raytrain::testing;

TEST_CASE("workers that take turns with blocks have each of them once, and as many but for one") {
  CHECK(numbers_in(numbered_blocks(7).shard(Rank{0}, WorldSize{3})) == Numbers{0, 3, 6});
  CHECK(numbers_in(numbered_blocks(7).shard(Rank{1}, WorldSize{3})) == Numbers{1, 4});
  CHECK(numbers_in(numbered_blocks(7).shard(Rank{2}, WorldSize{3})) == Numbers{2, 5});
  CHECK(numbers_in(numbered_blocks(2).shard(Rank{2}, WorldSize{3})).empty());
  CHECK(numbers_in(numbered_blocks(3).shard(Rank{0}, WorldSize{1})) == Numbers{0, 1, 2});
}

TEST_CASE("workers that share blocks equally have those of their turns, but for the last turn where one has none") {
  CHECK(numbers_in(numbered_blocks(7).shard(Rank{0}, WorldSize{3}, {.equal = true})) == Numbers{0, 3});
  CHECK(numbers_in(numbered_blocks(7).shard(Rank{2}, WorldSize{3}, {.equal = true})) == Numbers{2, 5});
  CHECK(numbers_in(numbered_blocks(6).shard(Rank{1}, WorldSize{3}, {.equal = true})) == Numbers{1, 4});
  CHECK(numbers_in(numbered_blocks(2).shard(Rank{0}, WorldSize{3}, {.equal = true})).empty());
  CHECK(numbers_in(numbered_blocks(0).shard(Rank{0}, WorldSize{1}, {.equal = true})).empty());
  // Of a shard, of blocks that are made ahead, and skipped in part.
  auto const half = numbered_blocks(13).shard(Rank{1}, WorldSize{2});  // 1, 3, 5, 7, 9, 11
  CHECK(numbers_in(half.shard(Rank{0}, WorldSize{4}, {.equal = true}).prefetch(1)) == Numbers{1});
  CHECK(numbers_in(numbered_blocks(11).prefetch(2).shard(Rank{1}, WorldSize{2}, {.equal = true})) ==
        Numbers{1, 3, 5, 7, 9});
  auto skipped = numbered_blocks(11).shard(Rank{1}, WorldSize{2}, {.equal = true});
  CHECK(skipped.skip());
  CHECK(skipped.next()->column("number").as<float>()[0] == 3);
  CHECK(skipped.position().blocks == 4);
  while (skipped.skip()) {
  }
  CHECK(skipped.position().blocks == 10);
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    auto behind = numbered_blocks(11).shard(Rank{rank}, WorldSize{3}, {.equal = true});
    behind.begin_at({0, 4, "numbered"});  // as two workers have left it
    CHECK(numbers_in(behind) == Numbers{static_cast<float>(4 + rank), static_cast<float>(7 + rank)});
  }
}

TEST_CASE("ranges are made before begin_at, and map takes a function") {
  for (std::uint64_t const blocks : {0, 1}) {
    auto placed = numbered_blocks(3);
    placed.begin_at({2, blocks, "numbered"});
    auto const problem = "begin_at has said already where these blocks begin";
    check_contains(thrown_error([&] { (void)placed.shard(Rank{0}, WorldSize{1}); }), problem);
    check_contains(thrown_error([&] { (void)placed.map("same", [](Dataset const& block) { return block; }); }),
                   problem);
    check_contains(thrown_error([&] { (void)placed.prefetch(); }), problem);
    CHECK(placed.position().epoch == 2);
  }
  check_contains(thrown_error([] { (void)numbered_blocks(3).map("same", nullptr); }), "there is no function 'same'");
}

/// Numbered blocks that count how many of them are made and how many are skipped.
struct CountedBlocks {
  std::size_t made = 0;
  std::size_t skipped = 0;

  auto blocks(std::int32_t count) -> DatasetBlocks {
    auto const at = std::make_shared<std::int32_t>(0);
    auto const next = [this, count, at]() -> std::optional<Dataset> {
      if (*at == count) return std::nullopt;
      ++made;
      return Dataset::from_columns({{"number", std::vector{static_cast<float>((*at)++)}}});
    };
    auto const skip = [this, count, at] {
      if (*at == count) return false;
      ++skipped;
      ++*at;
      return true;
    };
    return {"numbered", next, {.skip = skip}};
  }
};

TEST_CASE(
    "a shard makes its own blocks alone, mapped before and behind it, and so does one that begins at a position") {
  auto calls = std::size_t{0};
  auto const counted_map = [&](DatasetBlocks const& blocks) {
    return blocks.map("as it is", [&](Dataset const& block) {
      ++calls;
      return block;
    });
  };
  auto const shard = [](DatasetBlocks const& blocks) { return blocks.shard(Rank{1}, WorldSize{3}); };
  CountedBlocks plain;
  CHECK(numbers_in(shard(plain.blocks(9))) == Numbers{1, 4, 7});
  CHECK(plain.made == 3);
  CHECK(plain.skipped == 6);
  for (auto const is_before : {true, false}) {
    CAPTURE(is_before);
    calls = 0;
    CountedBlocks counted;
    auto const blocks = counted.blocks(9);
    auto mapped = is_before ? shard(counted_map(blocks)) : counted_map(shard(blocks));
    mapped.begin_at({0, 3, "numbered; \"as it is\""});
    CHECK(numbers_in(mapped) == Numbers{4, 7});
    CHECK(calls == 2);
    CHECK(counted.made == 2);
    CHECK(counted.skipped == 7);
  }
}

TEST_CASE("skipped blocks count in the position, are none behind the end, and are made where nothing skips them") {
  CountedBlocks counted;
  for (auto blocks : {counted.blocks(3), numbered_blocks(3)}) {
    CHECK(blocks.skip());
    CHECK(blocks.position() == BlocksPosition{0, 1, "numbered"});
    CHECK(blocks.next()->column("number").as<float>()[0] == 1);
    CHECK(blocks.skip());
    CHECK(blocks.position() == BlocksPosition{0, 3, "numbered"});
    CHECK_FALSE(blocks.skip());
    CHECK_FALSE(blocks.next());
    CHECK(blocks.position() == BlocksPosition{0, 3, "numbered"});
    check_contains(thrown_error([&] { blocks.check_is_fresh("here"); }), "some of the blocks were taken already");
  }
  CHECK(counted.made == 1);
  CHECK(counted.skipped == 2);
}

TEST_CASE("who makes blocks is told once, before the first one, which of them are taken") {
  std::vector<BlockTurns> told;
  auto const blocks = [&] {
    told.clear();
    return DatasetBlocks{"numbered",
                         [] { return std::optional{Dataset::of_rows(1)}; },
                         {.expect = [&](BlockTurns const& turns) { told.push_back(turns); }}};
  };
  auto const check_told = [&](DatasetBlocks range, std::uint64_t first, std::uint64_t stride) {
    REQUIRE(range.next());
    REQUIRE(range.next());
    REQUIRE(told.size() == 1);
    CHECK(told[0].first == first);
    CHECK(told[0].stride == stride);
  };
  auto const as_it_is = [](Dataset const& block) { return block; };
  check_told(blocks(), 0, 1);
  check_told(blocks().map("as it is", as_it_is), 0, 1);
  check_told(blocks().shard(Rank{1}, WorldSize{3}), 1, 3);
  check_told(blocks().shard(Rank{1}, WorldSize{3}).map("as it is", as_it_is).shard(Rank{1}, WorldSize{2}), 4, 6);
  check_told(blocks().shard(Rank{1}, WorldSize{3}).prefetch(1), 1, 3);
  check_told(blocks().prefetch(1).shard(Rank{1}, WorldSize{3}), 0, 1);  // its thread makes all
  auto at_position = blocks().shard(Rank{1}, WorldSize{3});
  at_position.begin_at({0, 9, "numbered"});
  check_told(at_position, 10, 3);
}

TEST_CASE("turns of blocks that are counted from a later one on are those of the same blocks") {
  for (std::uint64_t first = 0; first < 7; ++first) {
    for (std::uint64_t stride = 1; stride < 5; ++stride) {
      for (std::uint64_t behind = 0; behind < 20; ++behind) {
        auto block = first;
        while (block < behind) block += stride;
        auto const turns = BlockTurns{first, stride}.behind(behind);
        CHECK(turns.first == block - behind);
        CHECK(turns.stride == stride);
      }
    }
  }
}

TEST_CASE("what fails while a block is skipped fails at each later call, too") {
  DatasetBlocks blocks{"failing", [] { return std::optional{Dataset::of_rows(1)}; }, {.skip = []() -> bool {
                         throw std::runtime_error{"no"};
                       }}};
  CHECK_THROWS_AS((void)blocks.skip(), std::runtime_error);
  CHECK_THROWS_AS((void)blocks.next(), std::runtime_error);
}

/// Blocks that tell how many of them were made, and throw in the place of one of them.
struct WatchedBlocks {
  std::mutex mutex{};
  std::condition_variable changed{};
  std::size_t made = 0;

  void wait_until_made(std::size_t count) {
    std::unique_lock lock{mutex};
    changed.wait(lock, [&] { return made >= count; });
  }

  auto blocks(std::size_t count, std::optional<std::size_t> fails_at = {}) -> DatasetBlocks {
    return {"watched", [this, count, fails_at, at = std::size_t{0}]() mutable -> std::optional<Dataset> {
              if (at == count) return std::nullopt;
              if (at == fails_at) throw std::runtime_error{"no block " + std::to_string(at)};
              std::lock_guard const lock{mutex};
              ++made;
              changed.notify_all();
              return Dataset::from_columns({{"number", std::vector{static_cast<float>(at++)}}});
            }};
  }
};

TEST_CASE("blocks are made ahead of the one that is taken, as many as asked for, and come in their order") {
  WatchedBlocks watched;
  auto blocks = watched.blocks(9).prefetch(3);
  CHECK(watched.made == 0);
  for (std::size_t number = 0; number < 9; ++number) {
    auto const block = blocks.next();
    REQUIRE(block);
    CHECK(block->column("number").as<float>()[0] == static_cast<float>(number));
    watched.wait_until_made(std::min<std::size_t>(number + 4, 9));
    std::lock_guard const lock{watched.mutex};
    CHECK(watched.made <= number + 4);
  }
  CHECK_FALSE(blocks.next());
  CHECK_FALSE(blocks.next());
}

TEST_CASE("what fails in a block that is made ahead is told in its place, and from then on") {
  WatchedBlocks watched;
  auto blocks = watched.blocks(9, 2).prefetch(4);
  CHECK(blocks.next());
  CHECK(blocks.next());
  CHECK_THROWS_WITH(std::ignore = blocks.next(), "no block 2");
  CHECK_THROWS_WITH(std::ignore = blocks.next(), "no block 2");
}

TEST_CASE("a range that is left has no thread any more, and lets go of what its blocks come from") {
  auto const held = std::make_shared<int>(0);
  {
    auto blocks = DatasetBlocks{"endless", [held]() -> std::optional<Dataset> { return Dataset{}; }}.prefetch();
    CHECK(blocks.next());
  }
  CHECK(held.use_count() == 1);
}

TEST_CASE("a position in blocks that are made ahead counts those that were taken, and is one of blocks that are not") {
  auto shard = [](bool ahead) {
    auto const blocks = numbered_blocks(9).shard(Rank{0}, WorldSize{2});
    return ahead ? blocks.prefetch(3) : blocks;
  };
  for (auto const was_ahead : {true, false}) {
    CAPTURE(was_ahead);
    auto before = shard(was_ahead);
    CHECK(before.next());
    CHECK(before.next());
    auto behind = shard(!was_ahead);
    behind.begin_at(before.position());
    CHECK(numbers_in(behind) == Numbers{4, 6, 8});
  }
}

TEST_CASE("blocks are skipped where a thread makes them, and where it has not begun") {
  auto blocks = numbered_blocks(7).prefetch();
  CHECK(blocks.skip());
  CHECK(blocks.next()->column("number").as<float>()[0] == 1);
  CHECK(blocks.skip());
  CHECK(numbers_in(blocks) == Numbers{3, 4, 5, 6});
  CHECK_FALSE(blocks.skip());
  CHECK(numbers_in(numbered_blocks(7).prefetch().shard(Rank{1}, WorldSize{3})) == Numbers{1, 4});
}

TEST_CASE("blocks are made ahead of none that was taken, and not for none ahead") {
  check_contains(thrown_error([] { std::ignore = numbered_blocks(3).prefetch(0); }),
                 "invalid_call: DatasetBlocks::prefetch: 0 blocks ahead; write 2");
  check_contains(thrown_error([] { std::ignore = numbered_blocks(3).prefetch(1025); }), "number from 1 to 1024");
  auto begun = numbered_blocks(3);
  CHECK(begun.next());
  auto ahead = begun.prefetch();
  check_contains(thrown_error([&] { std::ignore = ahead.next(); }), "some of the blocks were taken already");
}

TEST_CASE("a shard of blocks has a source of its own, and is taken from blocks that are fresh") {
  auto const blocks = numbered_blocks(3);
  auto const shard = blocks.shard(Rank{1}, WorldSize{2});
  CHECK(shard.source() == "numbered; blocks of rank 1 of 2");
  CHECK(numbers_in(blocks).size() == 3);
  check_contains(thrown_error([&] { (void)numbers_in(shard); }), "some of the blocks were taken already");
  check_contains(thrown_error([&] { (void)blocks.shard(Rank{2}, WorldSize{2}); }),
                 "DatasetBlocks::shard: rank 2 is none of 2 workers");
}

TEST_CASE("blocks of a range that another one takes are not taken beside it") {
  auto const as_it_is = [](Dataset const& block) { return block; };
  std::vector<std::pair<std::string, std::function<DatasetBlocks(DatasetBlocks const& blocks)>>> const ways{
      {"map", [&](auto const& blocks) { return blocks.map("as it is", as_it_is); }},
      {"shard", [](auto const& blocks) { return blocks.shard(Rank{0}, WorldSize{2}); }},
      {"prefetch", [](auto const& blocks) { return blocks.prefetch(); }},
      {"map", [&](auto const& blocks) { return blocks.map("as it is", as_it_is).prefetch(); }}};
  for (auto const& [name, derive] : ways) {
    CAPTURE(name);
    auto blocks = numbered_blocks(5);
    auto of_these = derive(blocks);
    REQUIRE(of_these.next());
    auto const text =
        "invalid_call: DatasetBlocks::next: the blocks are taken by a range that was made of these by "
        "DatasetBlocks::" +
        name + "; take them from one range alone";
    check_contains(thrown_error([&] { std::ignore = blocks.next(); }), text);
    check_contains(thrown_error([&] { std::ignore = blocks.skip(); }), text);
    CHECK(blocks.position().blocks == 0);
    CHECK_NOTHROW(blocks.check_is_unchanged());
    CHECK(of_these.next());
  }
}

TEST_CASE("a range at its end lets go of what its blocks come from") {
  auto held = std::make_shared<int>();
  std::weak_ptr<int> const watched = held;
  DatasetBlocks::Next const none = [held = std::move(held)]() -> std::optional<Dataset> { return std::nullopt; };
  auto ranges =
      std::vector{DatasetBlocks{"none", none}.shard(Rank{0}, WorldSize{2}), DatasetBlocks{"none", none}.prefetch()};
  CHECK(watched.use_count() == 3);
  for (auto& range : ranges) CHECK_FALSE(range.next());
  CHECK(watched.use_count() == 1);
}

TEST_CASE("a range that has failed lets go of what its blocks come from") {
  auto held = std::make_shared<int>();
  std::weak_ptr<int> const watched = held;
  DatasetBlocks::Next const next = [held = std::move(held)]() -> std::optional<Dataset> { return Dataset::of_rows(1); };
  auto const failing = [](DatasetBlocks const& blocks) {
    return blocks.shard(Rank{0}, WorldSize{1}).map("fails", [](Dataset const&) -> Dataset {
      throw std::runtime_error{"no"};
    });
  };
  auto blocks = failing({"rows", next});
  CHECK(watched.use_count() == 2);
  CHECK_THROWS_AS((void)blocks.next(), std::runtime_error);
  CHECK(watched.use_count() == 1);
}

TEST_CASE("blocks of a file, also mapped and in shards, say that it was changed since they were made") {
  TemporaryFolder const folder;
  auto const file = folder.path() / "a.csv";
  write_text(file, "x\n1\n2\n");
  auto const blocks = csv_blocks(file);
  auto const mapped = blocks.map("as it is", [](Dataset const& block) { return block; });
  auto const shard = blocks.shard(Rank{0}, WorldSize{2});
  for (auto const& each : {blocks, mapped, shard}) each.check_is_unchanged();
  write_text(file, "x\n1\n");
  for (auto const& each : {blocks, mapped, shard}) {
    check_contains(thrown_error([&] { each.check_is_unchanged(); }), "a.csv': it was changed meanwhile");
  }
  numbered_blocks(2).check_is_unchanged();
}

}  // namespace
