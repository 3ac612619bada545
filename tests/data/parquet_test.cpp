// SPDX-License-Identifier: Apache-2.0
// Run by parquet_files.py, with files that pyarrow has written in the folder RAYTRAIN_TEST_PARQUET.
#include <raytrain/data/parquet.hpp>

#include <arrow/memory_pool.h>
#include <arrow/status.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <limits>
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
#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/dataset_blocks.hpp>
#include <raytrain/data/detail/arrow_column.hpp>
#include <raytrain/data/parquet_options.hpp>
#include <raytrain/testing/random_seed.hpp>

#include "../support/temporary_folder.hpp"
#include "../support/text_files.hpp"
#include "../support/thrown_error.hpp"
#include "comparison_count.hpp"
#include "python_tables.hpp"

namespace {

using namespace raytrain;
using raytrain::testing::check_contains;
using raytrain::testing::check_round_trips;
using raytrain::testing::check_skips;
using raytrain::testing::floats;
using raytrain::testing::of_python;
using raytrain::testing::random_seed;
using raytrain::testing::random_table;
using raytrain::testing::TemporaryFolder;
using raytrain::testing::texts;
using raytrain::testing::thrown_error;
using raytrain::testing::values_of;
namespace fs = std::filesystem;

constexpr auto not_a_number = std::numeric_limits<float>::quiet_NaN();

}  // namespace

TEST_CASE("each type that pyarrow has written becomes the column that the header says") {
  auto const data = read_parquet(of_python("types.parquet"));
  CHECK(data.column_names() == std::vector<std::string>{"age", "half", "id", "small", "ok", "city", "large", "raw",
                                                        "kind", "pixels", "points", "when", "day", "none"});
  CHECK(floats(data, "age") == std::vector<float>{1.5F, -1, 3});
  CHECK(static_cast<float>(values_of<Float16>(data, "half")[1]) == 0.25F);
  CHECK(values_of<std::int64_t>(data, "id") == std::vector<std::int64_t>{9007199254740993, -2, 3});
  CHECK(values_of<std::uint8_t>(data, "small") == std::vector<std::uint8_t>{0, 255, 7});
  CHECK(values_of<std::uint8_t>(data, "ok") == std::vector<std::uint8_t>{1, 0, 1});
  CHECK(data.column("ok").describe() == "ok (bool, scalar)");
  CHECK_FALSE(data.column("small").is_boolean());
  CHECK(texts(data, "city") == std::vector<std::string>{"Oslo", "(missing)", "Aix\n\"en\" P."});
  CHECK(texts(data, "large") == std::vector<std::string>{"a", "", "(missing)"});
  CHECK(texts(data, "raw") == std::vector<std::string>{std::string{"\0\xFF", 2}, "b", "c"});
  CHECK(texts(data, "kind") == std::vector<std::string>{"cat", "(missing)", "cat"});
  CHECK(data.column("kind").categories().size() == 1);
  CHECK(data.column("pixels").row_shape() == RowShape{2, 2});
  CHECK(values_of<std::uint8_t>(data, "pixels") == std::vector<std::uint8_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  CHECK(data.column("points").row_shape() == RowShape{2});
  CHECK(std::isnan(values_of<double>(data, "points")[3]));
  CHECK(values_of<double>(data, "points")[4] == 5);
  CHECK(values_of<std::int64_t>(data, "when") == std::vector<std::int64_t>{1'577'836'800'000'000, 0, -1});
  CHECK(values_of<std::int32_t>(data, "day") == std::vector<std::int32_t>{18262, 0, -1});
  CHECK(floats(data, "none") == std::vector<float>{-1, -1, -1});
  check_contains(thrown_error([&] { write_parquet(data, of_python("types_again.parquet")); }),
                 "types_again.parquet': column 'raw' has the text '");
  check_contains(thrown_error([&] {
                   write_parquet(data.head(1).rename_columns({{"age", "caf\xE9"}}), of_python("types_again.parquet"));
                 }),
                 "a column's name, 'caf\xEF\xBF\xBD', is not UTF-8, as Arrow's names are");
  write_parquet(data.drop_columns({"raw"}), of_python("types_again.parquet"));
}

TEST_CASE(
    "booleans of Arrow are booleans in lists, too, numbers where that is asked for, and refused where one is no "
    "boolean") {
  auto const as_number = [](ElementType type) { return ParquetOptions{.types = {{"x", type}}}; };
  auto const many = read_parquet(of_python("bools.parquet"));
  CHECK(many.column("x").describe() == "x (bool, 2)");
  CHECK(values_of<std::uint8_t>(many, "x") == std::vector<std::uint8_t>{1, 0, 0, 0});
  CHECK(read_parquet(of_python("bools.parquet"), as_number(ElementType::uint8)).column("x").describe() ==
        "x (uint8, 2)");
  check_contains(thrown_error([] { (void)read_parquet(of_python("bool_gaps.parquet")); }), "1 values are missing");
  CHECK(floats(read_parquet(of_python("bool_gaps.parquet"), as_number(ElementType::float32)), "x") ==
        std::vector<float>{1, -1});
  auto const mixed = of_python("mixed_*.parquet");
  check_contains(thrown_error([&] { (void)read_parquet(mixed); }),
                 "column 'x': it has uint8 here, and booleans before");
  CHECK(read_parquet(mixed, as_number(ElementType::uint8)).column("x").describe() == "x (uint8, scalar)");
  std::vector<std::uint8_t> const values{2};
  ColumnFormat format{"x"};
  format.is_boolean = true;
  auto const wrong = Dataset::from_columns(
      {Column{std::move(format), {std::shared_ptr<void>{}, reinterpret_cast<std::byte const*>(values.data())}, 1}});
  check_contains(thrown_error([&] { write_parquet(wrong, of_python("wrong.parquet")); }),
                 "column 'x' is boolean, and has the value 2 in row 0");
}

TEST_CASE("columns are kept in the order and made the types that are asked for") {
  auto const data = read_parquet(
      of_python("types.parquet"),
      {.columns = {"small", "age", "id"}, .types = {{"small", ElementType::float32}, {"id", ElementType::float64}}});
  CHECK(data.column_names() == std::vector<std::string>{"small", "age", "id"});
  CHECK(floats(data, "small") == std::vector<float>{0, 255, 7});
  CHECK(values_of<double>(data, "id") == std::vector<double>{9007199254740992, -2, 3});
  auto const gaps = read_parquet(of_python("gaps.parquet"), {.types = {{"n", ElementType::float32}}});
  CHECK(floats(gaps, "n") == std::vector<float>{1, -1, 16777216});
}

TEST_CASE("what no column can be is refused, and the error names file, column and remedy") {
  auto const refused = [](std::string const& name, ParquetOptions const& options = {}) {
    return thrown_error([&] { return read_parquet(of_python(name), options); });
  };
  check_contains(refused("gaps.parquet"),
                 "gaps.parquet': column 'n': 1 values are missing, and int64 has no NaN; make it "
                 "float32 or float64 by ParquetOptions::types");
  check_contains(refused("decimal.parquet"), "column 'price': no column is made of Arrow's type decimal128(10, 2)");
  check_contains(refused("ragged.parquet"), "column 'x': a list has 1 elements, and others have 2");
  check_contains(refused("no_list.parquet"), "column 'x': 1 lists are missing");
  check_contains(refused("empty_lists.parquet"), "column 'x': a list is empty");
  check_contains(refused("texts_in_lists.parquet"), "column 'x': it has lists of texts");
  check_contains(refused("texts_in_lists_of_groups.parquet"), "column 'x': it has lists of texts");
  check_contains(refused("structs.parquet"), "column 'x': no column is made of Arrow's type struct");
  check_contains(refused("no_rows.parquet"), "there are no rows");
  check_contains(refused("types.parquet", {.types = {{"city", ElementType::float32}}}),
                 "column 'city': it has texts, and is to be float32");
  check_contains(refused("types.parquet", {.types = {{"id", ElementType::int32}}}),
                 "column 'id': int32 does not hold 9007199254740993; give it a wider type");
  check_contains(refused("types.parquet", {.types = {{"points", ElementType::int32}}}), "column 'points': ");
  check_contains(refused("types.parquet", {.columns = {"age", "age"}}), "invalid_config: ParquetOptions::columns");
  check_contains(refused("types.parquet", {.columns = {"x"}}),
                 "ParquetOptions::columns names 'x', and the file has age");
  check_contains(refused("types.parquet", {.types = {{"x", ElementType::int8}}}), "ParquetOptions::types names 'x'");
  check_contains(refused("types.parquet", {.columns = {"age"}, .types = {{"id", ElementType::int8}}}),
                 "names 'id', which ParquetOptions::columns leaves out");
  check_contains(refused("twice.parquet"), "2 columns are called 'x'");
  check_contains(refused("is_not_there.parquet"), "not_found");
  TemporaryFolder const folder;
  auto const pipe = folder.path() / "pipe.parquet";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  check_contains(thrown_error([&] { return read_parquet(pipe); }), "pipe.parquet': it is not a regular file");
}

TEST_CASE("a column without a name is refused with its file") {
  auto const refusal = thrown_error([] { return read_parquet(of_python("nameless.parquet")); });
  check_contains(refusal, "invalid_data: reading Parquet file '");
  check_contains(refusal, "nameless.parquet': a column has no name");
}

TEST_CASE("a file that is cut off or is none is refused with its name") {
  TemporaryFolder const folder;
  auto const whole = of_python("types.parquet");
  auto const size = fs::file_size(whole);
  for (auto const bytes : {std::uintmax_t{0}, std::uintmax_t{3}, std::uintmax_t{8}, size / 2, size - 1}) {
    CAPTURE(bytes);
    auto const path = folder.path() / "cut.parquet";
    fs::copy_file(whole, path, fs::copy_options::overwrite_existing);
    fs::resize_file(path, bytes);
    check_contains(thrown_error([&] { return read_parquet(path); }), "cut.parquet': Arrow says: ");
  }
}

TEST_CASE("random tables are read as they were written, bit by bit, whole and in blocks") {
  check_round_trips(
      ".parquet", [](auto rows, fs::path const& path) { write_parquet(std::move(rows), path); },
      [](fs::path const& path) { return read_parquet(path); },
      [](fs::path const& path, std::size_t rows) { return parquet_blocks(path, {}, rows); });
}

TEST_CASE("Parquet blocks are the same where others are skipped, whatever row groups the file has") {
  check_skips([](DatasetBlocks rows, fs::path const& path) { write_parquet(std::move(rows), path); },
              [](fs::path const& path, std::size_t rows) { return parquet_blocks(path, {}, rows); });
}

TEST_CASE("Parquet blocks have as many rows as they are to have, whatever row groups the file has") {
  TemporaryFolder const folder;
  auto const path = folder.path() / "x.parquet";
  write_parquet(DatasetBlocks{"groups of 7 rows",
                              [left = 10]() mutable -> std::optional<Dataset> {
                                if (left-- == 0) return std::nullopt;
                                return Dataset::from_columns({Column::of_texts("t", {7, "a"})});
                              }},
                path);
  std::vector<std::size_t> sizes;
  for (auto const& block : parquet_blocks(path, {}, 20)) sizes.push_back(block.rows());
  CHECK(sizes == std::vector<std::size_t>{20, 20, 20, 10});
}

TEST_CASE("row groups that only skipped blocks have are not read, and damage in others is found") {
  TemporaryFolder const folder;
  auto const path = folder.path() / "x.parquet";
  constexpr std::size_t groups = 6;
  std::vector<Dataset> parts;
  for (std::size_t group = 0; group < groups; ++group) {
    parts.push_back(Dataset::from_columns({{"x", std::vector(10, 1234.5F + static_cast<float>(group))}}));
  }
  write_parquet(DatasetBlocks{"groups",
                              [&, at = std::size_t{0}]() mutable -> std::optional<Dataset> {
                                if (at == groups) return std::nullopt;
                                return parts[at++];
                              }},
                path);
  auto bytes = read_text(path);
  auto const damaged = 1234.5F + 3;
  std::string const marker(reinterpret_cast<char const*>(&damaged), sizeof damaged);
  REQUIRE(bytes.find(marker) != std::string::npos);
  bytes[bytes.find(marker)] ^= 1;
  write_text(path, bytes);
  auto const rows_of = [&](std::uint32_t rank) {
    std::size_t rows = 0;
    for (auto const& block : parquet_blocks(path, {}, 10).shard(Rank{rank}, WorldSize{2})) rows += block.rows();
    return rows;
  };
  CHECK(rows_of(0) == 30);
  check_contains(thrown_error([&] { return rows_of(1); }), "x.parquet");
  auto behind = parquet_blocks(path, {}, 10);
  behind.begin_at({0, 4, behind.source()});
  CHECK(floats(behind.next().value(), "x").front() == 1234.5F + 4);
}

TEST_CASE("the rows of several files follow one another, and each must have the same columns") {
  TemporaryFolder const folder;
  auto const write = [&](std::string const& name, Dataset const& rows) { write_parquet(rows, folder.path() / name); };
  auto const a = Dataset::from_columns({{"x", std::vector{1.0F}}, Column::of_texts("t", {"b"})});
  auto const b = Dataset::from_columns({Column::of_texts("t", {std::nullopt, "a"}), {"x", std::vector{2.0F, 3.0F}}});
  write("a.parquet", a);
  write("b.parquet", b);
  auto const both = read_parquet(folder.path() / "*.parquet");
  CHECK(floats(both, "x") == std::vector<float>{1, 2, 3});
  CHECK(texts(both, "t") == std::vector<std::string>{"b", "(missing)", "a"});
  write("c.parquet", Dataset::from_columns({{"x", std::vector{4.0F}}}));
  auto const refused = [&](ParquetOptions const& options = {}) {
    return thrown_error([&] { return read_parquet(folder.path() / "*.parquet", options); });
  };
  check_contains(refused(), "c.parquet': the files before have the column 't', and the file has x");
  CHECK(read_parquet(folder.path() / "*.parquet", {.columns = {"x"}}).rows() == 4);
  write("c.parquet", both.head(1).add_column({"y", std::vector{1.0F}}));
  check_contains(refused(), "c.parquet': it has 3 columns, and the files before have 2");
  write("c.parquet", Dataset::from_columns({{"x", std::vector{4.0}}}));
  check_contains(refused({.columns = {"x"}}), "c.parquet': column 'x': it has float64 here, and float32 before");
  CHECK(read_parquet(folder.path() / "*.parquet", {.columns = {"x"}, .types = {{"x", ElementType::float64}}}).rows() ==
        4);
}

TEST_CASE("numbers of other units are not mixed, and an error names the file whose rows are wrong") {
  for (ParquetOptions const& options : {ParquetOptions{}, ParquetOptions{.types = {{"when", ElementType::float64}}}}) {
    check_contains(
        thrown_error([&] { return read_parquet(of_python("unit_*.parquet"), options); }),
        "unit_2.parquet': column 'when': it is of Arrow's type timestamp[ns] here, and of timestamp[us] before");
  }
  check_contains(thrown_error([&] { return read_parquet(of_python("gaps_*.parquet")); }),
                 "gaps_1.parquet': column 'n'");
}

TEST_CASE("blocks leave nothing of the rows before in memory") {
  std::mt19937_64 random{random_seed()};
  TemporaryFolder const folder;
  auto const path = folder.path() / "x.parquet";
  constexpr std::size_t groups = 32;
  constexpr std::size_t group_rows = 50'000;
  write_parquet(DatasetBlocks{"random numbers",
                              [&, left = groups]() mutable -> std::optional<Dataset> {
                                if (left-- == 0) return std::nullopt;
                                std::vector<float> values(group_rows);
                                for (auto& value : values) value = static_cast<float>(random() % 1'000'000);
                                return Dataset::from_columns({{"x", std::move(values)}});
                              }},
                path);
  auto const before = arrow::default_memory_pool()->bytes_allocated();
  std::int64_t most = 0;
  std::size_t rows = 0;
  for (auto const& block : parquet_blocks(path, {}, 5'000)) {
    most = std::max(most, arrow::default_memory_pool()->bytes_allocated() - before);
    rows += block.rows();
  }
  CHECK(rows == groups * group_rows);
  CHECK(most < 8 * static_cast<std::int64_t>(group_rows * sizeof(float)));
}

TEST_CASE("rows of many values come in blocks of fewer rows") {
  TemporaryFolder const folder;
  auto const path = folder.path() / "x.parquet";
  auto const images = Dataset::from_columns({{"x", std::vector<std::uint8_t>(40U << 20U, 7), {1024, 1024}}});
  write_parquet(images, path);
  std::size_t rows = 0;
  for (auto const& block : parquet_blocks(path)) {
    CHECK(block.rows() <= 16);
    rows += block.rows();
  }
  CHECK(rows == 40);
  CHECK(read_parquet(path).digest() == images.digest());
}

TEST_CASE("a file with a flipped bit in its rows is refused, or has the same rows") {
  std::mt19937_64 random{random_seed()};
  TemporaryFolder const folder;
  auto const path = folder.path() / "x.parquet";
  auto const table = random_table(random, 50);
  write_parquet(table, path);
  auto const bytes = read_text(path);
  // What follows the rows has no checksum: the schema, its length and four letters.
  std::uint32_t schema_bytes = 0;
  std::memcpy(&schema_bytes, bytes.data() + bytes.size() - 8, sizeof schema_bytes);
  for (auto turn = 0; turn < 300; ++turn) {
    auto const place = random() % (bytes.size() - 8 - schema_bytes);
    auto damaged = bytes;
    damaged[place] = static_cast<char>(damaged[place] ^ (1 << random() % 8));
    write_text(path, damaged);
    CAPTURE(place);
    try {
      auto const read = read_parquet(path);
      CHECK(read.digest() == table.digest());
    } catch (Error const& error) {
      check_contains(error.what(), "x.parquet");
    }
  }
}

TEST_CASE("a file with any byte of its schema damaged is refused, or read") {
  TemporaryFolder const folder;
  auto const path = folder.path() / "x.parquet";
  std::vector<Column> columns;
  columns.emplace_back("lists", std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}, RowShape{2, 2});
  write_parquet(Dataset::from_columns(std::move(columns)), path);
  auto const bytes = read_text(path);
  std::uint32_t schema_bytes = 0;
  std::memcpy(&schema_bytes, bytes.data() + bytes.size() - 8, sizeof schema_bytes);
  int refused = 0;
  for (auto place = bytes.size() - 8 - schema_bytes; place < bytes.size(); ++place) {
    auto damaged = bytes;
    damaged[place] = static_cast<char>(damaged[place] + 2);
    write_text(path, damaged);
    CAPTURE(place);
    try {
      (void)read_parquet(path);
    } catch (Error const& error) {  // and nothing of Parquet's own
      check_contains(error.what(), "x.parquet");
      ++refused;
    }
    try {
      for (auto blocks = parquet_blocks(path, {}, 1); blocks.next() && blocks.skip();) {
      }
    } catch (Error const& error) {
      check_contains(error.what(), "x.parquet");
    }
  }
  CHECK(refused > 0);
}

TEST_CASE("blocks stay of the first one's type, and name a file that was changed") {
  auto blocks = parquet_blocks(of_python("late_*.parquet"));
  CHECK(floats(*blocks.next(), "x") == std::vector<float>{-1, -1});
  check_contains(thrown_error([&] { return blocks.next(); }), "column 'x': it has texts here, and float32 before");
  check_contains(thrown_error([] { return parquet_blocks(of_python("types.parquet"), {}, 0); }), "parquet_blocks");
  CHECK(texts(read_parquet(of_python("late_*.parquet")), "x") ==
        std::vector<std::string>{"(missing)", "(missing)", "a", "b"});
  TemporaryFolder const folder;
  auto const path = folder.path() / "x.parquet";
  auto const rows = Dataset::from_columns({{"x", std::vector<float>(10)}});
  write_parquet(rows, path);
  auto changed = parquet_blocks(path, {}, 4);
  (void)changed.next();
  write_parquet(rows.repeat(2), path);
  check_contains(thrown_error([&] { return changed.next(); }), "io: ");
  auto removed = parquet_blocks(path, {}, 4);
  auto skipped = parquet_blocks(path, {}, 4);
  (void)removed.next();
  (void)skipped.next();
  fs::rename(path, folder.path() / "elsewhere");
  check_contains(thrown_error([&] { return removed.next(); }), "not_found: read '" + path.string() + "'");
  check_contains(thrown_error([&] { return skipped.skip(); }), "not_found: read '" + path.string() + "'");
  fs::rename(folder.path() / "elsewhere", path);
  CHECK(parquet_blocks(path).source() == parquet_blocks(path).source());
  CHECK(parquet_blocks(path).source() != parquet_blocks(path, {.columns = {"x"}}).source());
}

TEST_CASE("a file that cannot be written leaves the one that was there") {
  TemporaryFolder const folder;
  auto const path = folder.path() / "x.parquet";
  auto const rows = Dataset::from_columns({{"x", std::vector{1.0F}}});
  write_parquet(rows, path);
  check_contains(thrown_error([&] {
                   write_parquet(Dataset::from_columns({{"x", std::vector{BFloat16{1}}}}), path);
                   return 0;
                 }),
                 "invalid_data: write Parquet file");
  check_contains(thrown_error([&] {
                   write_parquet(Dataset{}, path);
                   return 0;
                 }),
                 "the dataset has no column");
  check_contains(thrown_error([&] {
                   write_parquet(DatasetBlocks{"none", [] { return std::nullopt; }}, path);
                   return 0;
                 }),
                 "there is no block");
  auto others = [count = 0, rows]() mutable -> std::optional<Dataset> {
    return ++count == 1 ? rows : rows.rename_columns({{"x", "y"}});
  };
  check_contains(thrown_error([&] {
                   write_parquet(DatasetBlocks{"others", others}, path);
                   return 0;
                 }),
                 "a block has other columns than the first one");
  check_contains(thrown_error([&] {
                   write_parquet(rows, "/dev/full/x.parquet");
                   return 0;
                 }),
                 "io: write Parquet file");
  CHECK(read_parquet(path).digest() == rows.digest());
  CHECK(std::distance(fs::directory_iterator{folder.path()}, fs::directory_iterator{}) == 1);
}

TEST_CASE("a small file of very many rows is read in blocks, and as a whole only where the options say so") {
  TemporaryFolder const folder;
  auto const path = folder.path() / "x.parquet";
  constexpr std::size_t each = std::size_t{1} << 20U;
  auto const block =
      Dataset::from_columns({{"x", std::vector<float>(each, 1.5F)}, {"label", std::vector<std::uint8_t>(each)}});
  write_parquet(
      DatasetBlocks{"alike", [left = 17, block]() mutable { return left-- > 0 ? std::optional{block} : std::nullopt; }},
      path);
  auto const size = fs::file_size(path);
  REQUIRE(size < 300'000);
  CHECK(
      thrown_error([&] { return read_parquet(path); }) ==
      fmt::format("invalid_data: reading Parquet file '{}': its {} bytes unpack to {}, more than 64 MiB and 200 times "
                  "as much, as those of a file do that is made to fill the memory; if you trust it, raise "
                  "ParquetOptions::max_unpack_ratio, or read it in blocks by parquet_blocks",
                  path.string(), size, (4 + 1) * 17 * each));
  CHECK(read_parquet(path, {.max_unpack_ratio = 100'000}).rows() == 17 * each);
  std::size_t rows = 0;
  for (auto const& part : parquet_blocks(path, {}, each)) rows += part.rows();
  CHECK(rows == 17 * each);
  // Without the other column it is 68 MiB still, with fewer rows not 64.
  check_contains(thrown_error([&] { return read_parquet(path, {.columns = {"x"}}); }), "unpack to 71303168");
  write_parquet(block, path);
  CHECK(read_parquet(path).rows() == each);
}

TEST_CASE("a small file of equal long texts takes one of them, as a whole and in blocks") {
  auto const path = of_python("long_texts.parquet");
  CHECK(fs::file_size(path) < 1'000);
  auto const before = arrow::default_memory_pool()->total_bytes_allocated();
  auto const check = [](Dataset const& data) {
    REQUIRE(data.column("t").categories().size() == 1);
    CHECK(data.column("t").categories()[0] == std::string(20'000, 'x'));
    return data.rows();
  };
  CHECK(check(read_parquet(path)) == 20'000);
  std::size_t rows = 0;
  for (auto const& block : parquet_blocks(path, {}, 7'000)) rows += check(block);
  CHECK(rows == 20'000);
  CHECK(arrow::default_memory_pool()->total_bytes_allocated() - before < 20'000'000);  // twice 400'000'000 of texts
}

TEST_CASE("texts of several row groups and blocks come as they were written") {
  auto const check = [](Dataset const& data, std::size_t first) {
    auto const found = texts(data, "t");
    for (std::size_t row = 0; row < found.size(); ++row) REQUIRE(found[row] == fmt::format("number {}", first + row));
    return found.size();
  };
  auto const path = of_python("many_texts.parquet");
  CHECK(check(read_parquet(path), 0) == 30'000);
  std::size_t rows = 0;
  for (auto const& block : parquet_blocks(path, {}, 20'000)) rows += check(block, rows);
  CHECK(rows == 30'000);
}

TEST_CASE("texts that have the begin of the one before come as they were written, as a whole and in blocks") {
  for (auto const* const encoding : {"DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"}) {
    CAPTURE(encoding);
    std::string begin;
    for (int i = 0; i < 20; ++i) begin += "the same begin of each, ";
    auto const check = [&](Dataset const& data, std::size_t first) {
      for (std::size_t row = 0; row < data.rows(); ++row) {
        auto const i = first + row;
        REQUIRE(data.column("t").text(row) ==
                (i % 7 == 3 ? std::nullopt : std::optional<std::string>{fmt::format("{}{:05}", begin, i)}));
      }
      return data.rows();
    };
    auto const path = of_python(fmt::format("{}.parquet", encoding));
    CHECK(check(read_parquet(path), 0) == 30'000);
    for (auto const size : {7U, 4'321U, 65'536U}) {
      std::size_t rows = 0;
      for (auto const& block : parquet_blocks(path, {}, size)) rows += check(block, rows);
      CHECK(rows == 30'000);
    }
  }
}

TEST_CASE("a small file of texts that repeat the one before is refused where they fill the memory, else read") {
  auto const path = of_python("alike.parquet");
  auto const size = fs::file_size(path);
  REQUIRE(size < 100'000);
  auto const held = arrow::default_memory_pool()->bytes_allocated();
  auto const said = [&](std::string_view what, std::string_view remedy) {
    return fmt::format(
        "invalid_data: reading Parquet file '{}': {} take more than 536870912 bytes of memory, and it has "
        "{}, as those of a file do that is made to fill the memory; {}",
        path.string(), what, size, remedy);
  };
  CHECK(thrown_error([&] { return read_parquet(path); }) ==
        said("its rows",
             "if you trust it, raise ParquetOptions::max_unpack_ratio, or read it in blocks by parquet_blocks"));
  CHECK(thrown_error([&] { return parquet_blocks(path).next(); }) ==
        said("rows of a block", "read smaller blocks or, if you trust it, raise ParquetOptions::max_unpack_ratio"));
  std::size_t rows = 0;
  for (auto const& block : parquet_blocks(path, {}, 1'500)) {
    CHECK(block.column("t").categories().size() == 1);
    CHECK(block.column("t").text(0)->size() == 50'000);
    rows += block.rows();
  }
  CHECK(rows == 16'000);
  CHECK(arrow::default_memory_pool()->max_memory() - held < 700'000'000);
}

TEST_CASE("blocks of few rows do not each take the texts of all rows") {
  auto const before = arrow::default_memory_pool()->total_bytes_allocated();
  std::size_t rows = 0;
  for (auto const& block : parquet_blocks(of_python("one_group.parquet"), {}, 100)) {
    REQUIRE(block.column("t").text(0) == fmt::format("number {}", rows));
    rows += block.rows();
  }
  CHECK(rows == 30'000);
  CHECK(arrow::default_memory_pool()->total_bytes_allocated() - before < 30'000'000);  // 300 blocks, 400'000 of texts
}

TEST_CASE("what a model says of each block of a Parquet file becomes another one, row by row") {
  TemporaryFolder const folder;
  std::vector<float> values(10'000);
  std::vector<std::int64_t> keys(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(i % 100);
    keys[i] = static_cast<std::int64_t>(i);
  }
  write_parquet(Dataset::from_columns({{"key", keys}, {"x", values}}), folder.path() / "rows.parquet");
  auto const predict = [](Dataset const& block) {
    std::vector<float> scores;
    for (auto const x : block.column("x").as<float>()) scores.push_back(2 * x + 1);
    return block.select_columns({"key"}).add_column({"score", std::move(scores)});
  };
  write_parquet(parquet_blocks(folder.path() / "rows.parquet", {}, 3'000).map("2 x + 1", predict),
                folder.path() / "predictions.parquet");
  auto const predictions = read_parquet(folder.path() / "predictions.parquet");
  CHECK(predictions.column_names() == std::vector<std::string>{"key", "score"});
  CHECK(values_of<std::int64_t>(predictions, "key") == keys);
  for (auto& value : values) value = 2 * value + 1;
  CHECK(floats(predictions, "score") == values);
}

TEST_CASE("memory that there is not is told of with the file and what to do, whichever of Arrow's files it is") {
  auto const none = arrow::Status::OutOfMemory("malloc of size 99 failed");
  CHECK(
      thrown_error([&] { raytrain::detail::check_memory(none, "Parquet file 'x'", "parquet_blocks"); }) ==
      "invalid_data: reading Parquet file 'x': there is not the memory that it asks for: malloc of size 99 failed; it "
      "is damaged, or too large: read it in blocks by parquet_blocks");
  raytrain::detail::check_memory(arrow::Status::OK(), "Parquet file 'x'", "parquet_blocks");
  raytrain::detail::check_memory(arrow::Status::Invalid("no"), "Parquet file 'x'", "parquet_blocks");
}

TEST_CASE("eight times as many columns take less than sixteen times as many comparisons of names") {
  TemporaryFolder const folder;
  auto const comparisons = [&](int count) {
    std::vector<Column> columns;
    for (auto i = 0; i < count; ++i) columns.emplace_back(fmt::format("column {:04}", i), std::vector{1.0F});
    auto const path = folder.path() / fmt::format("{}.parquet", count);
    write_parquet(Dataset::from_columns(std::move(columns)), path);
    auto const before = comparison_count();
    CHECK(read_parquet({path, path}).columns().size() == static_cast<std::size_t>(count));
    return comparison_count() - before;
  };
  auto const of_few = comparisons(250);
  CHECK(of_few > 250);
  CHECK(comparisons(2'000) < 16 * of_few);
}
