// SPDX-License-Identifier: Apache-2.0
// Blocks of files that are passed over, as those of other workers.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <string_view>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <raytrain/core/identifiers.hpp>
#include <raytrain/data/blocks_position.hpp>
#include <raytrain/data/csv.hpp>
#include <raytrain/data/csv_type.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/dataset_blocks.hpp>
#include <raytrain/data/detail/row_turns.hpp>
#include <raytrain/data/json_lines.hpp>
#include <raytrain/data/json_lines_options.hpp>
#include <raytrain/data/libsvm.hpp>
#include <raytrain/data/libsvm_options.hpp>
#include <raytrain/testing/random_seed.hpp>

#include "../support/temporary_folder.hpp"
#include "../support/text_files.hpp"
#include "../support/thrown_error.hpp"
#include "gzip_file.hpp"
#include "skipped_blocks.hpp"

namespace {

using namespace raytrain;
using namespace raytrain::testing;

/// Rows of a number, a text, of which some have quotes and ends of lines, and a gap; among them empty lines.
auto numbered_csv_text(std::size_t rows, std::mt19937_64& random) -> std::string {
  constexpr std::string_view ends[] = {"\n", "\r\n", "\r"};
  auto const has_quotes = random() % 2 == 0;
  auto const end = ends[random() % 3];
  auto text = fmt::format("number,text,gap{}", end);
  for (std::size_t row = 0; row < rows; ++row) {
    text += fmt::format("{},", row);
    text += has_quotes && random() % 8 == 0 ? "\"a \"\"quote\"\",\n and more\"" : fmt::format("t{}", random() % 9);
    text += random() % 2 == 0 ? fmt::format(",{}", random() % 100) : ",";
    if (row + 1 < rows || random() % 2 == 0) text += end;
    if (random() % 16 == 0) text += end;
  }
  return text;
}

auto numbered_json_text(std::size_t rows, std::mt19937_64& random) -> std::string {
  std::string text;
  for (std::size_t row = 0; row < rows; ++row) {
    text += fmt::format("{{\"number\": {}, \"text\": \"t{}\"}}\n", row, random() % 9);
    if (random() % 16 == 0) text += " \n";
  }
  return text;
}

auto numbered_libsvm_text(std::size_t rows, std::mt19937_64& random) -> std::string {
  std::string text;
  for (std::size_t row = 0; row < rows; ++row) {
    text += fmt::format("{} 0:{} {}:1\n", random() % 2, row, 1 + random() % 4);
    if (random() % 16 == 0) text += "# a remark\n";
  }
  return text;
}

TEST_CASE("blocks of lines are the same where others are skipped, of small files, large ones and gzip") {
  std::mt19937_64 random{random_seed()};
  for (auto round = 0; round < 60; ++round) {
    auto const is_large = round % 15 == 0;  // so that several threads read it
    auto const format = is_large ? round / 15 % 3 : round % 3;
    TemporaryFolder const folder;
    for (auto file = is_large ? std::size_t{1} : 1 + random() % 3; file > 0; --file) {
      auto const rows = is_large ? 400'000 : 1 + random() % 400;
      auto const text = format == 0   ? numbered_csv_text(rows, random)
                        : format == 1 ? numbered_json_text(rows, random)
                                      : numbered_libsvm_text(rows, random);
      auto const path = folder.path() / fmt::format("part-{}", file);
      if (random() % 3 == 0 && !is_large) {
        write_gzip(path, text);
      } else {
        write_text(path, text);
      }
    }
    auto const size = is_large ? 1'000 + random() % 100'000 : 1 + random() % 80;
    CAPTURE(format);
    CAPTURE(size);
    CsvOptions csv;
    if (!is_large && random() % 4 == 0) csv.max_rows = 1 + random() % 300;
    auto const make = [&]() -> DatasetBlocks {
      if (format == 0) return csv_blocks(folder.path(), csv, size);
      if (format == 1) return json_lines_blocks(folder.path(), {}, size);
      return libsvm_blocks(folder.path(), {.features = 5, .zero_based = true}, size);
    };
    check_skipped_blocks(make, random);
  }
}

TEST_CASE("several threads read the blocks of a large CSV file that take turns as one thread does") {
  std::mt19937_64 random{random_seed()};
  TemporaryFolder const folder;
  auto const path = folder.path() / "a.csv";
  for (auto round = 0; round < 6; ++round) {
    write_text(path, numbered_csv_text(400'000, random));
    auto const size = round % 2 == 0 ? 1 + random() % 300 : 10'000 + random() % 60'000;
    BlockTurns const turns{random() % 6, 1 + random() % 5};
    CAPTURE(size);
    CAPTURE(turns.first);
    CAPTURE(turns.stride);
    CsvOptions const options;
    auto const read_by = [&](int threads, detail::RowTurns const& kept) {
      auto const file = std::make_shared<detail::CsvFile>(path, options, threads, kept);
      return BlockReader{[=] { return file->next(size); }, [=] { return file->skip(size); }};
    };
    check_readers(
        read_by(1, {}), {read_by(1, {size, turns}), read_by(3, {size, turns})},
        [&](std::uint64_t block) { return turns.takes(block); }, check_same_block);
  }
}

TEST_CASE("fields of CSV blocks that are skipped are not looked at, and their worker is told what is wrong there") {
  TemporaryFolder const folder;
  auto const path = folder.path() / "a.csv";
  struct Wrong {
    std::string line;
    std::string problem;
  };
  for (auto const& [line, problem] : {Wrong{"none,1\n", "line {}, column 'x': 'none' is not a number"},
                                      Wrong{"1,1,1\n", "line {} has 3 fields, and there are 2 columns"}})
    for (auto const rows : {std::size_t{2'000}, std::size_t{1'000'000}}) {  // by one thread, and by several
      CAPTURE(problem);
      CAPTURE(rows);
      auto const wrong = rows / 2 + 150;
      std::string text = "x,y\n";
      for (std::size_t row = 0; row < rows; ++row) text += row == wrong ? line : fmt::format("{},1\n", row);
      write_text(path, text);
      auto const rows_of = [&](std::uint32_t rank) {
        std::size_t count = 0;
        for (auto const& block : csv_blocks(path, {}, 100).shard(Rank{rank}, WorldSize{2})) count += block.rows();
        return count;
      };
      CHECK(rows_of(0) == rows / 2);
      check_contains(thrown_error([&] { (void)rows_of(1); }), fmt::format(fmt::runtime(problem), wrong + 2));
      auto behind = csv_blocks(path, {}, 100);
      behind.begin_at({0, wrong / 100 + 1, behind.source()});
      CHECK(behind.next()->column("x").as<float>()[0] == static_cast<float>(wrong / 100 * 100 + 100));
    }
}

TEST_CASE("a quote that does not close is found by each worker, whose block it is in or not") {
  TemporaryFolder const folder;
  auto const path = folder.path() / "a.csv";
  for (auto const rows : {std::size_t{2'000}, std::size_t{1'000'000}}) {
    CAPTURE(rows);
    std::string text = "x,y\n";
    for (std::size_t row = 0; row < rows; ++row) text += fmt::format("{},{}\n", row, row == rows / 2 ? "\"" : "1");
    write_text(path, text);
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      auto const take_all = [&] {
        for (auto const& block : csv_blocks(path, {}, 100).shard(Rank{rank}, WorldSize{2})) (void)block;
      };
      check_contains(thrown_error(take_all), fmt::format("line {}: a quoted field does not end", rows / 2 + 2));
    }
  }
}

TEST_CASE("the first block of a CSV file decides the types of columns, whichever blocks are taken") {
  TemporaryFolder const folder;
  auto const path = folder.path() / "a.csv";
  write_text(path, "a,b\n1,\n2,\n3,y\n4,\n");
  auto const text = "line 4, column 'b': 'y' is not a number";
  auto const take_all = [&](WorldSize workers, Rank rank, std::uint64_t behind) {
    auto blocks = csv_blocks(path, {}, 1).shard(rank, workers);
    blocks.begin_at({0, behind, csv_blocks(path, {}, 1).source()});
    while (auto const block = blocks.next()) CHECK(block->column("b").type() == ElementType::float32);
  };
  check_contains(thrown_error([&] { take_all(WorldSize{1}, Rank{0}, 0); }), text);
  check_contains(thrown_error([&] { take_all(WorldSize{2}, Rank{0}, 0); }), text);
  check_contains(thrown_error([&] { take_all(WorldSize{1}, Rank{0}, 2); }), text);
  CHECK_NOTHROW(take_all(WorldSize{2}, Rank{1}, 0));
  CHECK_NOTHROW(take_all(WorldSize{1}, Rank{0}, 3));
}

TEST_CASE("lines of blocks that are skipped are not looked at, and their worker is told what is wrong there") {
  TemporaryFolder const folder;
  auto const path = folder.path() / "lines";
  struct Lines {
    std::string line;  // with the row's number
    std::string wrong;
    std::string problem;
    std::function<DatasetBlocks()> make;
  };
  LibsvmOptions const libsvm{.features = 2, .zero_based = true};
  for (auto const& [line, wrong, problem, make] :
       {Lines{"{{\"x\": {}}}\n", "{\"y\": 1}\n", "line {}: the name 'y' comes here first, behind the first block",
              [&] { return json_lines_blocks(path, {}, 100); }},
        Lines{"{{\"x\": {}}}\n", "[\n", "line {}", [&] { return json_lines_blocks(path, {}, 100); }},
        Lines{"1 0:{}\n", "1 1:2 0:1\n", "line {}: the index 0 follows 1",
              [&] { return libsvm_blocks(path, libsvm, 100); }}})
    for (auto const rows : {std::size_t{2'000}, std::size_t{600'000}}) {  // by one thread, and by several
      CAPTURE(problem);
      CAPTURE(rows);
      auto const wrong_row = rows / 2 + 150;
      std::string text;
      for (std::size_t row = 0; row < rows; ++row) {
        text += row == wrong_row ? wrong : fmt::format(fmt::runtime(line), row);
      }
      write_text(path, text);
      auto const rows_of = [&](std::uint32_t rank) {
        std::size_t count = 0;
        for (auto const& block : make().shard(Rank{rank}, WorldSize{2})) count += block.rows();
        return count;
      };
      CHECK(rows_of(0) == rows / 2);
      check_contains(thrown_error([&] { (void)rows_of(1); }), fmt::format(fmt::runtime(problem), wrong_row + 1));
      auto behind = make();
      behind.begin_at({0, wrong_row / 100 + 1, behind.source()});
      CHECK(behind.next()->rows() == 100);
    }
}

TEST_CASE("files that are one block each, of any number of rows, are skipped and shared") {
  TemporaryFolder const folder;
  for (auto const* const name : {"a", "b", "c"}) write_text(folder.path() / name, "1 1:2\n0 1:3\n");
  auto const all = std::numeric_limits<std::size_t>::max();
  auto const blocks = [&] { return libsvm_blocks(folder.path(), {.features = 1, .zero_based = false}, all); };
  auto skipped = blocks();
  CHECK(skipped.next()->rows() == 2);
  CHECK(skipped.skip());
  CHECK(skipped.skip());
  CHECK_FALSE(skipped.skip());
  auto first = blocks().shard(Rank{0}, WorldSize{2});
  CHECK(first.next()->rows() == 2);
  CHECK(first.next()->rows() == 2);
  CHECK_FALSE(first.next());
}

TEST_CASE("a name of JsonLinesOptions::types that only skipped blocks have is not missed") {
  TemporaryFolder const folder;
  auto const path = folder.path() / "a.jsonl";
  write_text(path, "{\"x\": 1}\n{\"x\": 2, \"late\": \"y\"}\n{\"x\": 3}\n");
  JsonLinesOptions options{.types = {{"late", CsvType::text}}};
  auto const rows_of = [](DatasetBlocks const& shard) {
    std::size_t count = 0;
    for (auto blocks = shard; auto const block = blocks.next();) count += block->rows();
    return count;
  };
  CHECK(rows_of(json_lines_blocks(path, options, 1).shard(Rank{0}, WorldSize{2})) == 2);
  CHECK(rows_of(json_lines_blocks(path, options, 1).shard(Rank{1}, WorldSize{2})) == 1);
  options.types.emplace("absent", CsvType::text);
  check_contains(thrown_error([&] { (void)rows_of(json_lines_blocks(path, options, 1)); }),
                 "JsonLinesOptions::types names 'absent', and the lines have x, late");
}

TEST_CASE("blocks that are made ahead are sharded again, and begin anywhere") {
  TemporaryFolder const folder;
  auto const path = folder.path() / "a.csv";
  write_text(path, "a\n0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n");
  auto const numbers = [&](bool ahead, std::uint64_t behind) {
    auto blocks = csv_blocks(path, {}, 1).shard(Rank{0}, WorldSize{2});
    if (ahead) blocks = blocks.prefetch(1);
    blocks = blocks.shard(Rank{0}, WorldSize{2});
    blocks.begin_at({0, behind, csv_blocks(path, {}, 1).source()});
    std::vector<float> values;
    while (auto const block = blocks.next()) values.push_back(block->column("a").as<float>()[0]);
    return values;
  };
  for (std::uint64_t behind = 0; behind < 10; ++behind) {
    CAPTURE(behind);
    CHECK(numbers(true, behind) == numbers(false, behind));
  }
}

}  // namespace
