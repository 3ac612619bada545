// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/core/bytes.hpp>
#include <raytrain/core/element_type.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/csv.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/dataset_blocks.hpp>
#include <raytrain/data/dataset_text.hpp>
#include <raytrain/data/filter.hpp>
#include <raytrain/data/group_by.hpp>
#include <raytrain/data/json_lines.hpp>
#include <raytrain/data/map_batches.hpp>
#include <raytrain/data/materialize.hpp>
#include <raytrain/data/npy.hpp>
#include <raytrain/data/sort.hpp>
#include <raytrain/data/write_csv.hpp>
#include <raytrain/preprocess/count_vectorizer.hpp>
#include <raytrain/testing/random_seed.hpp>

#include "../support/temporary_folder.hpp"
#include "../support/text_files.hpp"
#include "../support/thrown_error.hpp"
#include "same_rows.hpp"

namespace {

using namespace raytrain;
using namespace raytrain::testing;

auto bits_of(Column const& column) -> std::vector<std::uint8_t> {
  auto const values = column.as<std::uint8_t>();
  return {values.begin(), values.end()};
}

/// `clicked`: true, false, true, whose bytes are `first`, 0 and 1.
auto clicks(std::uint8_t first = 1) -> Dataset {
  auto const bytes = std::make_shared<std::vector<std::uint8_t> const>(std::vector<std::uint8_t>{first, 0, 1});
  ColumnFormat format{"clicked"};
  format.is_boolean = true;
  std::shared_ptr<std::byte const> const begin{bytes, reinterpret_cast<std::byte const*>(bytes->data())};
  return Dataset::from_columns({Column{std::move(format), begin, 3}, {"n", std::vector<std::int32_t>{7, 8, 9}}});
}

auto random_booleans(std::mt19937_64& random, std::string name, std::size_t rows, RowShape shape) -> Column {
  std::vector<bool> values;
  std::size_t row_values = 1;
  for (auto const extent : shape) row_values *= extent;
  for (std::size_t i = 0; i < rows * row_values; ++i) values.push_back(random() % 2 == 0);
  return Column::of_booleans(std::move(name), values, std::move(shape));
}

}  // namespace

TEST_CASE("a column of booleans is one of uint8 to what takes numbers, and says what it is") {
  auto const column = Column::of_booleans("clicked", {true, false, true, true}, {2});
  CHECK(column.is_boolean());
  CHECK(column.describe() == "clicked (bool, 2)");
  CHECK(column.rows() == 2);
  CHECK(bits_of(column) == std::vector<std::uint8_t>{1, 0, 1, 1});
  CHECK(column.booleans_as_numbers().describe() == "clicked (uint8, 2)");
  CHECK(column.booleans_as_numbers().numbers_as_booleans().describe() == "clicked (bool, 2)");
  CHECK(to_string(clicks()) ==
        "clicked      n\n"
        "   bool  int32\n"
        "   true      7\n"
        "  false      8\n"
        "   true      9\n");
  CHECK(to_string(Dataset::from_columns({column}), 1).find("[true, false]") != std::string::npos);
}

TEST_CASE("what is made of rows keeps which columns are booleans") {
  auto const data = clicks();
  auto const is_kept = [](Dataset const& made) {
    return made.columns().front().describe() == "clicked (bool, scalar)";
  };
  CHECK(is_kept(data.head(1)));
  CHECK(is_kept(data.select(std::vector<std::uint64_t>{2, 0})));
  CHECK(is_kept(data.union_with(data)));
  CHECK(is_kept(data.repeat(2)));
  CHECK(is_kept(data.random_shuffle(3)));
  CHECK(is_kept(sort(data, "n")));
  CHECK(is_kept(sort(data, "clicked")));
  CHECK(is_kept(filter(data, [](Row const& row) { return row.get<std::uint8_t>("clicked") == 1; })));
  CHECK(is_kept(map_batches(data, [](Dataset const& batch) { return batch; })));
  CHECK(data.rename_columns({{"clicked", "seen"}}).column("seen").is_boolean());
  CHECK_FALSE(data.column("n").is_boolean());
}

TEST_CASE("a digest is that of the numbers, so that runs go on, and the source of blocks is not") {
  auto const data = clicks();
  auto const numbers = data.with_column(data.column("clicked").booleans_as_numbers());
  CHECK(data.digest() == numbers.digest());
  CHECK(data.digest() == Dataset::from_columns({{"clicked", std::vector<std::uint8_t>{1, 0, 1}},
                                                {"n", std::vector<std::int32_t>{7, 8, 9}}})
                             .digest());
  CHECK(DatasetBlocks{data}.source() != DatasetBlocks{numbers}.source());
}

TEST_CASE("booleans and numbers of uint8 are not joined, and the error names both") {
  auto const data = clicks();
  auto const numbers = data.with_column(data.column("clicked").booleans_as_numbers());
  check_contains(thrown_error([&] { (void)data.union_with(numbers); }),
                 "clicked (bool, scalar) is here clicked (uint8, scalar)");
  CHECK(data.union_with(numbers.with_column(numbers.column("clicked").numbers_as_booleans())).rows() == 6);
}

TEST_CASE("what is no boolean is not made one, and one with another value than 0 and 1 is not written") {
  check_contains(thrown_error([] {
                   (void)Column{"x", std::vector<std::uint8_t>{1, 0, 7}}.numbers_as_booleans();
                 }),
                 "invalid_data: column 'x' as booleans: column 'x' is boolean, and has the value 7 in row 2");
  check_contains(thrown_error([] {
                   (void)Column{"x", std::vector<float>{1}}.numbers_as_booleans();
                 }),
                 "invalid_data: column 'x': it is said to be boolean, and holds float32; give booleans as uint8");
  check_contains(thrown_error([] { (void)Column::of_texts("x", {"true"}).numbers_as_booleans(); }), "and holds text");
  check_contains(thrown_error([] { (void)Column::of_booleans("x", {true}, {2}); }), "1 values do not divide");

  auto const wrong = clicks(2);
  CHECK(to_string(wrong).find("      2      7\n") != std::string::npos);
  TemporaryFolder const folder;
  auto const refused = [&](auto const& write) {
    check_contains(thrown_error([&] { write(folder.path() / "out"); }),
                   "column 'clicked' is boolean, and has the value 2 in row 0; make it 1 for true, or take the column "
                   "as numbers by Column::booleans_as_numbers");
  };
  refused([&](auto const& path) { write_csv(wrong, path); });
  refused([&](auto const& path) { write_json_lines(wrong, path); });
  refused([&](auto const& path) { write_npy(wrong.column("clicked"), path); });
  CHECK(std::filesystem::is_empty(folder.path()));
  refused([&](auto const& path) { (void)materialize(path, wrong); });
}

TEST_CASE("booleans are written as true and false, and as NumPy's bool") {
  TemporaryFolder const folder;
  auto const path = folder.path() / "out";
  write_csv(clicks(), path);
  CHECK(read_text(path) == "clicked,n\ntrue,7\nfalse,8\ntrue,9\n");
  write_json_lines(Dataset::from_columns({Column::of_booleans("x", {true, false}, {2})}), path);
  CHECK(read_text(path) == "{\"x\":[true,false]}\n");
  write_npy(clicks().column("clicked"), path);
  CHECK(read_text(path).find("{'descr': '|b1', 'fortran_order': False, 'shape': (3,), }") != std::string::npos);
  CHECK(read_text(path).ends_with(std::string{"\1\0\1", 3}));
}

TEST_CASE("true and false of JSON lines are numbers, which can be missing, unless booleans are asked for") {
  CHECK(parse_json_lines("{\"x\":true}\n{\"x\":null}").column("x").describe() == "x (float32, scalar)");
  auto const asked = parse_json_lines("{\"x\":true}\n{\"x\":false}", {.types = {{"x", CsvType::boolean}}});
  CHECK(asked.column("x").describe() == "x (bool, scalar)");
}

TEST_CASE(
    "a boolean that JSON lines lack is said to be one, and so is a column of booleans where texts are asked for") {
  auto const refused = [](std::string const& text) {
    return thrown_error([&] { (void)parse_json_lines(text, {.types = {{"x", CsvType::boolean}}}); });
  };
  check_contains(refused("{\"x\":true}\n{\"x\":null}"), "column 'x': a boolean is missing; ");
  check_contains(refused("{\"x\":null}\n{\"x\":true}"), "column 'x': a boolean is missing in the lines before; ");
  check_contains(refused("{\"x\":null}\n{\"x\":[true]}"), "column 'x': a boolean is missing in the lines before; ");
  check_contains(refused("{\"x\":null}"), "column 'x': booleans are missing in all lines up to here; ");
  check_contains(thrown_error([] { (void)clicks().column("clicked").categories(); }), "it holds bool and no text");
  CountVectorizer counts{{"clicked"}};
  check_contains(thrown_error([&] { counts.fit(clicks()); }), "column 'clicked' holds bool and no text");
}

TEST_CASE("the smallest and the largest of groups of booleans are booleans, and their sum and mean are numbers") {
  auto const of_groups = group_by(clicks(), "clicked")
                             .aggregate({{Aggregate::min, "clicked", "min"},
                                         {Aggregate::max, "clicked", "max"},
                                         {Aggregate::sum, "clicked", "sum"},
                                         {Aggregate::mean, "clicked", "mean"}});
  CHECK(to_string(of_groups) ==
        "clicked    min    max    sum     mean\n"
        "   bool   bool   bool  int64  float64\n"
        "  false  false  false      0        0\n"
        "   true   true   true      2        1\n");
}

TEST_CASE("bytes of NumPy's bool other than 0 are read as true, and left as they are where they are mapped") {
  TemporaryFolder const folder;
  auto const path = folder.path() / "x.npy";
  write_npy(Column::of_booleans("data", {true, false}), path);
  auto content = read_text(path);
  content[content.size() - 2] = '\xfe';
  write_text(path, content);
  auto const read = read_npy(path);
  CHECK(read.column("data").describe() == "data (bool, scalar)");
  CHECK(bits_of(read.column("data")) == std::vector<std::uint8_t>{1, 0});
  check_contains(thrown_error([&] { write_npy(map_npy(path).column("data"), folder.path() / "y.npy"); }),
                 "has the value 254 in row 0");
}

TEST_CASE("random booleans come back from each kind of file as booleans, whole and in blocks") {
  std::mt19937_64 random{random_seed()};
  for (auto round = 0; round < 20; ++round) {
    TemporaryFolder const folder;
    auto const rows = 1 + random() % 300;
    auto const size = 1 + random() % 100;
    CAPTURE(rows);
    CAPTURE(size);
    auto const one = Dataset::from_columns({random_booleans(random, "one", rows, {})});
    auto const all = one.add_column(random_booleans(random, "many", rows, {2, 3}));

    auto const csv = folder.path() / "x.csv";
    CsvOptions const csv_types{.types = {{"one", CsvType::boolean}}};
    write_csv(one, csv);
    check_same_rows(read_csv(csv, csv_types), one);
    write_csv(csv_blocks(csv, csv_types, size), csv.string() + "2");
    CHECK(read_text(csv.string() + "2") == read_text(csv));

    auto const json = folder.path() / "x.jsonl";
    JsonLinesOptions const json_types{.types = {{"one", CsvType::boolean}, {"many", CsvType::boolean}}};
    write_json_lines(all, json);
    check_same_rows(read_json_lines(json, json_types), all);
    write_json_lines(json_lines_blocks(json, json_types, size), json.string() + "2");
    CHECK(read_text(json.string() + "2") == read_text(json));

    for (auto const& column : all.columns()) {
      auto const npy = folder.path() / "x.npy";
      write_npy(column, npy);
      check_same_rows(read_npy(npy, {.column = column.name()}), Dataset::from_columns({column}));
      check_same_rows(map_npy(npy, {.column = column.name()}), Dataset::from_columns({column}));
    }

    auto const out = folder.path() / "rows";
    check_same_rows(materialize(out, json_lines_blocks(json, json_types, size)), all);
    check_same_rows(open_dataset(out), all);
  }
}
