// SPDX-License-Identifier: Apache-2.0
// Run by parquet_files.py, with files that pyarrow has written in the folder RAYTRAIN_TEST_PARQUET.
#include <raytrain/data/arrow.hpp>

#include <arrow/memory_pool.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <raytrain/core/element_type.hpp>
#include <raytrain/core/float16.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/data/arrow_options.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/dataset_blocks.hpp>
#include <raytrain/data/parquet.hpp>
#include <raytrain/testing/random_seed.hpp>

#include "../support/temporary_folder.hpp"
#include "../support/text_files.hpp"
#include "../support/thrown_error.hpp"
#include "python_tables.hpp"

namespace {

using namespace raytrain;
using raytrain::testing::check_contains;
using raytrain::testing::check_round_trips;
using raytrain::testing::check_skips;
using raytrain::testing::floats;
using raytrain::testing::of_python;
using raytrain::testing::random_seed;
using raytrain::testing::TemporaryFolder;
using raytrain::testing::texts;
using raytrain::testing::thrown_error;
using raytrain::testing::values_of;
namespace fs = std::filesystem;

auto refused(fs::path const& path, ArrowOptions const& options = {}) -> std::string {
  return thrown_error([&] { return read_arrow(path, options); });
}

}  // namespace

TEST_CASE("pyarrow's Arrow files, streams and Feather files are read as its Parquet files are, compressed or not") {
  auto const as_parquet = read_parquet(of_python("types.parquet"));
  for (auto const* const name : {"types.arrow", "types.arrows", "types_lz4.feather", "types_zstd.feather",
                                 "types_lz4.arrows", "types_zstd.arrows"}) {
    CAPTURE(name);
    CHECK(read_arrow(of_python(name)).digest() == as_parquet.digest());
  }
}

TEST_CASE("columns of Arrow files are kept in the order and made the types that are asked for") {
  for (auto const* const name : {"types.arrow", "types.arrows", "types_lz4.feather"}) {
    CAPTURE(name);
    ArrowOptions const options{.columns = {"small", "kind", "age", "id"},
                               .types = {{"small", ElementType::float32}, {"id", ElementType::float64}}};
    auto const data = read_arrow(of_python(name), options);
    CHECK(data.column_names() == options.columns);
    CHECK(floats(data, "small") == std::vector<float>{0, 255, 7});
    CHECK(values_of<double>(data, "id") == std::vector<double>{9007199254740992, -2, 3});
    CHECK(texts(data, "kind") == std::vector<std::string>{"cat", "(missing)", "cat"});
  }
}

TEST_CASE("categories of numbers are the numbers, and each record batch may have categories of its own") {
  auto const codes = read_arrow(of_python("codes.arrows"), {.types = {{"size", ElementType::float32}}});
  CHECK(floats(codes, "size") == std::vector<float>{30, 10, -1, 10, 20});
  CHECK(texts(codes, "kind") == std::vector<std::string>{"cat", "dog", "cow", "(missing)", "cat"});
  CHECK(values_of<std::int64_t>(codes, "whole") == std::vector<std::int64_t>{7, 7, 8, 9, 9});
}

TEST_CASE("what no column can be is refused in Arrow files, and the error names file, column and remedy") {
  auto const of = [](std::string const& name, ArrowOptions const& options = {}) {
    return refused(of_python(name), options);
  };
  check_contains(of("gaps.arrow"),
                 "reading Arrow file '" + of_python("gaps.arrow").string() +
                     "': column 'n': 1 values are missing, and int64 has no NaN; make it float32 or float64 by "
                     "ArrowOptions::types");
  check_contains(of("decimal.arrow"), "column 'price': no column is made of Arrow's type decimal128(10, 2)");
  check_contains(of("decimal.arrow"), "leave it out by ArrowOptions::columns");
  check_contains(of("structs.arrow"), "column 'x': no column is made of Arrow's type struct");
  check_contains(of("ragged.arrow"), "column 'x': a list has 1 elements, and others have 2");
  check_contains(of("no_rows.arrow"), "there are no rows");
  check_contains(of("types.arrow", {.types = {{"id", ElementType::int32}}}),
                 "column 'id': int32 does not hold 9007199254740993; give it a wider type by ArrowOptions::types");
  check_contains(of("types.arrow", {.columns = {"age", "age"}}), "invalid_config: ArrowOptions::columns");
  check_contains(of("types.arrow", {.columns = {"x"}}), "ArrowOptions::columns names 'x', and the file has age");
  check_contains(of("twice.arrow"), "2 columns are called 'x'");
  check_contains(of("is_not_there.arrow"), "not_found");
}

TEST_CASE("what is no Arrow file is refused, and the error says what it is") {
  check_contains(refused(of_python("types.parquet")), "it is a Parquet file; read it by read_parquet");
  TemporaryFolder const folder;
  auto const of = [&](std::string const& content) {
    auto const path = folder.path() / "x.arrow";
    write_text(path, content);
    return refused(path);
  };
  check_contains(of("FEA1 and so on"), "x.arrow': it is a Feather file of version 1");
  check_contains(of("\x1F\x8B and so on"), "x.arrow': it is compressed by gzip as a whole; unpack it, as by gzip -d");
  check_contains(of(""), "x.arrow': it is empty");
  check_contains(of("a,b\n1,2\n3,4\n"), "x.arrow': it begins as neither an Arrow file nor a stream");
  auto const pipe = folder.path() / "pipe.arrow";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  check_contains(refused(pipe), "pipe.arrow': it is not a regular file");
}

TEST_CASE("an Arrow file or stream that is cut off anywhere is refused with its name") {
  TemporaryFolder const folder;
  for (auto const* const name : {"few.arrow", "few.arrows", "few_lz4.arrows"}) {
    auto const whole = read_text(of_python(name));
    CHECK(read_arrow(of_python(name)).rows() == 5);
    auto const path = folder.path() / "cut.arrow";
    for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
      CAPTURE(name);
      CAPTURE(bytes);
      write_text(path, whole.substr(0, bytes));
      check_contains(refused(path), "invalid_data: reading Arrow file '" + path.string());
    }
  }
  auto const stream = read_text(of_python("few.arrows"));
  auto const path = folder.path() / "two.arrows";
  write_text(path, stream.substr(0, stream.size() - 8));
  check_contains(refused(path), "it breaks off without the mark of a stream's end, so that rows may be missing");
  write_text(path, stream + stream);
  check_contains(refused(path), fmt::format("{} bytes follow the end of its stream", stream.size()));
}

TEST_CASE("an Arrow file with flipped bits is refused with its name, or is read as other rows") {
  std::mt19937_64 random{random_seed()};
  TemporaryFolder const folder;
  auto const path = folder.path() / "x.arrow";
  auto refusals = 0;
  for (auto const* const name : {"types.arrow", "types.arrows", "types_lz4.feather", "types_zstd.arrows"}) {
    auto const whole = read_text(of_python(name));
    for (auto turn = 0; turn < 1'000; ++turn) {
      auto damaged = whole;
      for (auto flips = 1 + random() % 3; flips > 0; --flips) {
        auto const place = random() % damaged.size();
        damaged[place] = static_cast<char>(damaged[place] ^ (1 << random() % 8));
      }
      write_text(path, damaged);
      try {
        auto const rows = read_arrow(path).rows();
        CHECK(rows > 0);
      } catch (Error const& error) {
        ++refusals;
        check_contains(error.what(), "x.arrow");
      }
    }
  }
  CHECK(refusals > 0);
}

TEST_CASE("random tables are read from Arrow files as they were written, bit by bit, whole and in blocks") {
  check_round_trips(
      ".arrow", [](auto rows, fs::path const& path) { write_arrow(std::move(rows), path); },
      [](fs::path const& path) { return read_arrow(path); },
      [](fs::path const& path, std::size_t rows) { return arrow_blocks(path, {}, rows); });
}

TEST_CASE("Arrow blocks are the same where others are skipped, whatever record batches the file has") {
  check_skips([](DatasetBlocks rows, fs::path const& path) { write_arrow(std::move(rows), path); },
              [](fs::path const& path, std::size_t rows) { return arrow_blocks(path, {}, rows); });
}

TEST_CASE("no column is made of the values of Arrow blocks that are skipped") {
  TemporaryFolder const folder;
  auto const path = folder.path() / "x.arrow";
  write_arrow(Dataset::from_columns({{"x", std::vector<std::int32_t>{0, 1, 2, 300, 4, 5}}}), path);
  auto const rows_of = [&](std::uint32_t rank) {
    std::vector<std::int8_t> rows;
    for (auto const& block : arrow_blocks(path, {.types = {{"x", ElementType::int8}}}, 1).shard(Rank{rank}, {2})) {
      rows.push_back(block.column("x").as<std::int8_t>()[0]);
    }
    return rows;
  };
  CHECK(rows_of(0) == std::vector<std::int8_t>{0, 2, 4});
  check_contains(thrown_error([&] { return rows_of(1); }), "x.arrow': column 'x': int8 does not hold 300");
}

TEST_CASE("files, streams and record batches follow one another, and each file must have the same columns") {
  auto const both = read_arrow({of_python("few.arrow"), of_python("few_lz4.arrows")}, {.columns = {"t", "x"}});
  CHECK(floats(both, "x") == std::vector<float>{1, 2, 3, 4, 5, 1, 2, 3, 4, 5});
  CHECK(texts(both, "t").at(7) == "(missing)");
  std::vector<std::size_t> sizes;
  for (auto const& block : arrow_blocks({of_python("few.arrow"), of_python("few.arrows")}, {}, 2)) {
    sizes.push_back(block.rows());
  }
  CHECK(sizes == std::vector<std::size_t>{2, 1, 2, 2, 1, 2});
  check_contains(thrown_error([] {
                   return read_arrow({of_python("few.arrow"), of_python("gaps.arrow")});
                 }),
                 "gaps.arrow': the files before have the column 'x', and the file has n");
  check_contains(thrown_error([] {
                   return read_arrow({of_python("unit_1.arrow"), of_python("unit_2.arrow")});
                 }),
                 "unit_2.arrow': column 'when': it is of Arrow's type timestamp[ns] here, and of timestamp[us] before");
}

TEST_CASE("numbers of one record batch stay where Arrow has read them") {
  TemporaryFolder const folder;
  constexpr std::size_t rows = 60'000;
  write_arrow(Dataset::from_columns({{"x", std::vector<float>(rows, 1)}}), folder.path() / "x.arrow");
  auto const before = arrow::default_memory_pool()->bytes_allocated();
  auto const data = read_arrow(folder.path() / "x.arrow");
  CHECK(arrow::default_memory_pool()->bytes_allocated() - before >= static_cast<std::int64_t>(rows * sizeof(float)));
  CHECK(std::ranges::count(data.column("x").as<float>(), 1.0F) == rows);
}

TEST_CASE("blocks of an Arrow file leave nothing of the record batches before in memory") {
  TemporaryFolder const folder;
  auto const path = folder.path() / "x.arrow";
  constexpr std::size_t batches = 32;
  constexpr std::size_t batch_rows = 50'000;
  auto numbers = [left = batches]() mutable -> std::optional<Dataset> {
    if (left-- == 0) return std::nullopt;
    return Dataset::from_columns({{"x", std::vector<float>(batch_rows, static_cast<float>(left))}});
  };
  write_arrow(DatasetBlocks{"numbers", numbers}, path);
  auto const before = arrow::default_memory_pool()->bytes_allocated();
  std::int64_t most = 0;
  std::size_t rows = 0;
  for (auto const& block : arrow_blocks(path, {}, 5'000)) {
    most = std::max(most, arrow::default_memory_pool()->bytes_allocated() - before);
    rows += block.rows();
  }
  CHECK(rows == batches * batch_rows);
  CHECK(most < 3 * static_cast<std::int64_t>(batch_rows * sizeof(float)));
}

TEST_CASE("a small Arrow file whose rows fill the memory is refused as a whole, and read in blocks") {
  for (auto const* const name : {"zeros.arrow", "zeros.arrows"}) {
    CAPTURE(name);
    auto const path = of_python(name);
    REQUIRE(fs::file_size(path) < 100'000);
    check_contains(
        refused(path),
        fmt::format("': its rows take more than 536870912 bytes of memory, and it has {}, as those of a file "
                    "do that is made to fill the memory; if you trust it, raise "
                    "ArrowOptions::max_unpack_ratio, or read it in blocks by arrow_blocks",
                    fs::file_size(path)));
    std::size_t rows = 0;
    for (auto const& block : arrow_blocks(path, {}, 3'000'000)) {
      CHECK(block.column("x").as<double>()[0] == 0);
      rows += block.rows();
    }
    CHECK(rows == std::size_t{14} * 5'000'000);
  }
}

TEST_CASE("blocks of Arrow files name a file that was changed, and what their source is") {
  TemporaryFolder const folder;
  auto const path = folder.path() / "x.arrow";
  auto const rows = Dataset::from_columns({{"x", std::vector<float>(10)}});
  write_arrow(rows, path);
  auto changed = arrow_blocks(path, {}, 4);
  (void)changed.next();
  write_arrow(rows.repeat(2), path);
  check_contains(thrown_error([&] { return changed.next(); }), "io: ");
  auto removed = arrow_blocks(path, {}, 4);
  (void)removed.next();
  fs::rename(path, folder.path() / "elsewhere");
  check_contains(thrown_error([&] { return removed.next(); }), "not_found: read '" + path.string() + "'");
  fs::rename(folder.path() / "elsewhere", path);
  CHECK(arrow_blocks(path).source() == arrow_blocks(path).source());
  CHECK(arrow_blocks(path).source() != arrow_blocks(path, {.columns = {"x"}}).source());
  CHECK(arrow_blocks(path).source() != parquet_blocks(path).source());
  check_contains(thrown_error([&] { return arrow_blocks(path, {}, 0); }), "arrow_blocks");
}

TEST_CASE("an Arrow file that cannot be written leaves the one that was there") {
  TemporaryFolder const folder;
  auto const path = folder.path() / "x.arrow";
  auto const rows = Dataset::from_columns({{"x", std::vector{1.0F}}});
  write_arrow(rows, path);
  check_contains(thrown_error([&] {
                   write_arrow(Dataset::from_columns({{"x", std::vector{BFloat16{1}}}}), path);
                 }),
                 "invalid_data: write Arrow file '" + path.string() + "': Arrow has no bfloat16");
  check_contains(thrown_error([&] { write_arrow(Dataset::from_columns({Column::of_texts("t", {"\xE9"})}), path); }),
                 "column 't' has the text '\xEF\xBF\xBD', which is not UTF-8");
  check_contains(thrown_error([&] {
                   write_arrow(DatasetBlocks{"none", [] { return std::nullopt; }}, path);
                 }),
                 "there is no block");
  check_contains(thrown_error([&] { write_arrow(rows, "/dev/full/x.arrow"); }), "io: write Arrow file");
  CHECK(read_arrow(path).digest() == rows.digest());
  CHECK(std::distance(fs::directory_iterator{folder.path()}, fs::directory_iterator{}) == 1);
}
