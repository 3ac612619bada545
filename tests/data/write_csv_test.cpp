// SPDX-License-Identifier: Apache-2.0
#include <raytrain/data/write_csv.hpp>

#include <sys/resource.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <concepts>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <limits>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/core/element_type.hpp>
#include <raytrain/core/float16.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/csv.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/dataset_blocks.hpp>
#include <raytrain/testing/random_seed.hpp>

#include "../support/temporary_folder.hpp"
#include "../support/text_files.hpp"
#include "../support/thrown_error.hpp"

namespace {

using namespace raytrain;
using raytrain::testing::check_contains;
using raytrain::testing::TemporaryFolder;
using raytrain::testing::thrown_error;
using Names = std::vector<std::string>;

auto written(Dataset const& dataset) -> std::string {
  TemporaryFolder const folder;
  write_csv(dataset, folder.path() / "table.csv");
  return read_text(folder.path() / "table.csv");
}

/// Values of any bits, some of them as people write numbers.
template <class T, class Bits>
auto random_column(std::string name, std::size_t rows, std::mt19937_64& random) -> Column {
  std::vector<T> values(rows);
  std::ranges::generate(values, [&] {
    if (random() % 3 == 0) return static_cast<T>(static_cast<double>(random() % 2000) / 8 - 100);
    return std::bit_cast<T>(static_cast<Bits>(random()));
  });
  return {std::move(name), std::move(values)};
}

/// With any of the letters that CSV treats in its own way.
auto random_name(std::size_t number, std::mt19937_64& random) -> std::string {
  std::string name;
  for (auto length = random() % 6; length > 0; --length)
    name += std::string_view{"a,\"\r\n ;b\xEF\xBB\xBF"}[random() % 11];
  return name + std::to_string(number);
}

auto random_texts(std::size_t rows, std::mt19937_64& random) -> std::vector<std::optional<std::string>> {
  std::vector<std::optional<std::string>> texts(rows);
  for (auto& text : texts) {
    if (random() % 4 != 0) text = random_name(random() % 10, random);
  }
  return texts;
}

auto random_bits(std::size_t rows, std::mt19937_64& random) -> std::vector<std::uint8_t> {
  std::vector<std::uint8_t> values(rows);
  for (auto& value : values) value = static_cast<std::uint8_t>(random() % 2);
  return values;
}

void check_same_values(Column const& written_one, Column const& read_one) {
  REQUIRE(read_one.type() == written_one.type());
  REQUIRE(read_one.rows() == written_one.rows());
  REQUIRE(read_one.is_text() == written_one.is_text());
  if (written_one.is_text()) REQUIRE(std::ranges::equal(read_one.categories(), written_one.categories()));
  written_one.visit([&]<Element T>(std::span<T const> values) {
    auto const again = read_one.as<T>();
    for (std::size_t i = 0; i < values.size(); ++i) {
      auto const is_nan = [](T value) {
        if constexpr (std::floating_point<T>) return std::isnan(value);
        return false;
      };
      auto const bytes = [](T const& value) { return std::as_bytes(std::span{&value, 1}); };
      auto const is_same = is_nan(values[i]) ? is_nan(again[i]) : std::ranges::equal(bytes(values[i]), bytes(again[i]));
      if (!is_same) CAPTURE(i);
      if (!is_same) FAIL_CHECK("another value");
    }
  });
}

TEST_CASE("a table is a line of names, and one of the shortest numbers for each row") {
  CHECK(written(Dataset::from_columns({{"age", std::vector<float>{0.1F, 1e20F, -0.0F}},
                                       {"size", std::vector<double>{0.1, 1.0 / 3, 5}},
                                       {"small", std::vector<std::int8_t>{-128, 65, 0}},
                                       {"large", std::vector<std::uint64_t>{0, 18446744073709551615U, 1}}})) ==
        "age,size,small,large\n0.1,0.1,-128,0\n1e+20,0.3333333333333333,65,18446744073709551615\n-0,5,0,1\n");
  CHECK(written(Dataset::from_columns({{"x", std::vector<Float16>{Float16{0.5F}, Float16{-3.0F}}}})) == "x\n0.5\n-3\n");
  CHECK(written(Dataset::from_columns({{"x", std::vector<float>{}}})) == "x\n");
}

TEST_CASE("large whole numbers of float32 are read back where nobody names a type") {
  TemporaryFolder const folder;
  std::vector<float> const large{123'456'792, 33'554'448, -16'777'218, 1e15F, 1e16F, 3e38F};
  write_csv(Dataset::from_columns({{"x", large}}), folder.path() / "x.csv");
  auto const read = raytrain::read_csv(folder.path() / "x.csv").column("x");
  for (std::size_t i = 0; i < large.size(); ++i) CHECK(read.as<float>()[i] == large[i]);
}

TEST_CASE("a first name that begins as a compressed file does, or with a byte order mark, is read back") {
  TemporaryFolder const folder;
  for (std::string const name : {"\x1F\x8B\x08", "(\xB5/\xFD",
                                 "\xFD"
                                 "7zXZ",
                                 "\xFE\xFFy", "\xFF\xFEy", "\xEF\xBB\xBFy"}) {
    write_csv(Dataset::from_columns({{name, std::vector<float>{1}}}), folder.path() / "x.csv");
    CHECK(raytrain::read_csv(folder.path() / "x.csv").column_names() == std::vector{name});
  }
}

TEST_CASE("names are quoted where they need it, and NaN are empty fields, in quotes where the line has no other") {
  auto const nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(written(Dataset::from_columns({{"a,b", std::vector<float>{nan}}, {"say \"x\"", std::vector<float>{1}}})) ==
        "\"a,b\",\"say \"\"x\"\"\"\n,1\n");
  CHECK(written(Dataset::from_columns({{"x", std::vector<float>{nan, 1}}})) == "x\n\"\"\n1\n");
}

TEST_CASE("random tables are read as they were written, bit by bit") {
  std::mt19937_64 random{raytrain::testing::random_seed()};
  TemporaryFolder const folder;
  auto const path = folder.path() / "table.csv";
  for (auto round = 0; round < 60; ++round) {
    auto const rows = 1 + random() % (round == 0 ? 20'000 : 200);
    std::vector<Column> columns;
    CsvOptions options;
    for (auto count = 1 + random() % 4; columns.size() < count;) {
      auto const type = static_cast<CsvType>(random() % 6);
      auto const name = random_name(columns.size(), random);
      switch (type) {
        case CsvType::float32: columns.push_back(random_column<float, std::uint32_t>(name, rows, random)); break;
        case CsvType::float64: columns.push_back(random_column<double, std::uint64_t>(name, rows, random)); break;
        case CsvType::int32: columns.push_back(random_column<std::int32_t, std::uint32_t>(name, rows, random)); break;
        case CsvType::boolean: columns.push_back({name, random_bits(rows, random)}); break;
        case CsvType::int64: columns.push_back(random_column<std::int64_t, std::uint64_t>(name, rows, random)); break;
        case CsvType::text: columns.push_back(Column::of_texts(name, random_texts(rows, random))); break;
      }
      options.types.emplace(name, type);
    }
    auto const dataset = Dataset::from_columns(std::move(columns));
    write_csv(dataset, path);
    auto const again = read_csv(path, options);
    REQUIRE(again.column_names() == dataset.column_names());
    for (std::size_t i = 0; i < dataset.columns().size(); ++i)
      check_same_values(dataset.columns()[i], again.columns()[i]);
  }
  CHECK(names_below(folder.path()) == Names{"table.csv"});
}

TEST_CASE("a file is replaced as a whole, also behind a symbolic link, and stays as it is when writing fails") {
  TemporaryFolder const folder;
  auto const path = folder.path() / "table.csv";
  auto const link = folder.path() / "link.csv";
  std::filesystem::create_symlink("table.csv", link);
  write_csv(Dataset::from_columns({{"x", std::vector<float>{1}}}), path);
  write_csv(Dataset::from_columns({{"y", std::vector<float>{2}}}), link);
  CHECK(std::filesystem::is_symlink(link));
  CHECK(read_text(path) == "y\n2\n");

  ::rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  auto* const handler = std::signal(SIGXFSZ, SIG_IGN);
  ::rlimit const small{.rlim_cur = 1000, .rlim_max = before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  auto const error = thrown_error([&] {
    write_csv(Dataset::from_columns({{"x", std::vector<float>(100'000)}}), path);
    return 0;
  });
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  CHECK(error == "io: write CSV file '" + path.string() +
                     "': File too large; look at the folder: whether it is there, its permissions and its free space");
  CHECK(read_text(path) == "y\n2\n");
  CHECK(names_below(folder.path()) == Names{"link.csv", "table.csv"});
}

TEST_CASE("a symbolic link stays one, and its file is made where it is not there") {
  TemporaryFolder const folder;
  auto const path = folder.path() / "data" / "table.csv";
  auto const link = folder.path() / "link.csv";
  std::filesystem::create_directory(folder.path() / "data");
  std::filesystem::create_symlink("data/latest.csv", link);
  std::filesystem::create_symlink(path, folder.path() / "data" / "latest.csv");
  write_csv(Dataset::from_columns({{"x", std::vector<float>{1}}}), link);
  CHECK(read_text(path) == "x\n1\n");
  CHECK(std::filesystem::is_symlink(link));
  CHECK(names_below(folder.path() / "data") == Names{"latest.csv", "table.csv"});

  std::filesystem::remove(path);
  std::filesystem::create_symlink("../link.csv", path);
  auto const error = thrown_error([&] {
    write_csv(Dataset::from_columns({{"x", std::vector<float>{1}}}), link);
    return 0;
  });
  CHECK(error == "io: write CSV file '" + link.string() +
                     "': Too many levels of symbolic links; look where the links lead, or name the file itself");
  CHECK(std::filesystem::is_symlink(link));
  CHECK(names_below(folder.path()) == Names{"data", "link.csv"});
}

TEST_CASE("what is no table, and what is no file, is refused, and nothing is left behind") {
  TemporaryFolder const folder;
  auto const refused = [&](Dataset const& dataset, std::filesystem::path const& path) {
    return thrown_error([&] {
      write_csv(dataset, path);
      return 0;
    });
  };
  auto const path = folder.path() / "table.csv";
  auto const one = Dataset::from_columns({{"x", std::vector<float>{1}}});
  CHECK(refused(one.add_column({"image", std::vector<float>(4), {2, 2}}), path) ==
        "invalid_data: write CSV file '" + path.string() +
            "': column 'image' has rows of shape 2 x 2, and not of one number; take a column of one number a row");
  CHECK(refused(Dataset::of_rows(3), path) ==
        "invalid_data: write CSV file '" + path.string() + "': the dataset has no column; add one");
  CHECK(refused(one, folder.path()) ==
        "io: write CSV file '" + folder.path().string() + "': it is there, and no regular file; name a file");
  auto const elsewhere = folder.path() / "missing" / "table.csv";
  CHECK(refused(one, elsewhere) == "io: write CSV file '" + elsewhere.string() +
                                       "': No such file or directory; look at the folder: whether it is there, its "
                                       "permissions and its free space");
  CHECK(names_below(folder.path()).empty());
}

}  // namespace

TEST_CASE("a name of a compressed file is refused, since what is written is not compressed") {
  TemporaryFolder const folder;
  auto const data = Dataset::from_columns({{"x", std::vector<float>{1}}});
  check_contains(thrown_error([&] { write_csv(data, folder.path() / "x.csv.gz"); }),
                 "its name ends in .gz, and it is not compressed by gzip; leave .gz out, and run gzip on it");
  check_contains(thrown_error([&] { write_csv(data, folder.path() / "x.csv.zst"); }),
                 "its name ends in .zst, and it is not compressed by zstd; leave .zst out, and run zstd on it");
  CHECK(std::filesystem::is_empty(folder.path()));
  auto read = 0;
  raytrain::DatasetBlocks const blocks{"rows", [&] {
                                         ++read;
                                         return std::optional{data};
                                       }};
  check_contains(thrown_error([&] { write_csv(blocks, folder.path() / "x.csv.gz"); }), "its name ends in .gz");
  CHECK(read == 0);
}

TEST_CASE("blocks become one file, whose columns are the first one's") {
  TemporaryFolder const folder;
  auto const path = folder.path() / "table.csv";
  auto const blocks = [](std::vector<Dataset> parts) {
    return DatasetBlocks{"parts",
                         [parts = std::move(parts), next = std::size_t{0}]() mutable -> std::optional<Dataset> {
                           return next == parts.size() ? std::nullopt : std::optional{parts[next++]};
                         }};
  };
  auto const one = Dataset::from_columns({{"x", std::vector{1.5F, 2.0F}}, Column::of_texts("t", {"a", std::nullopt})});
  auto const other = Dataset::from_columns({{"x", std::vector{3.0F}}, Column::of_texts("t", {"b"})});
  write_csv(blocks({one, one.head(0), other}), path);
  CHECK(read_text(path) == "x,t\n1.5,a\n2,\n3,b\n");
  write_csv(csv_blocks(path, {}, 1).map("again", [](Dataset const& block) { return block.select_columns({"t"}); }),
            path);
  CHECK(read_text(path) == "t\na\n\"\"\nb\n");
  auto const refused = thrown_error([&] { write_csv(blocks({one, other.rename_columns({{"t", "s"}})}), path); });
  testing::check_contains(refused, "a block has other columns than the first one: 't' is missing, 's' is new");
  testing::check_contains(thrown_error([&] { write_csv(blocks({}), path); }), "invalid_data");
  CHECK(read_text(path) == "t\na\n\"\"\nb\n");
  CHECK(names_below(folder.path()) == Names{"table.csv"});
}
