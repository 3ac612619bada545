// SPDX-License-Identifier: Apache-2.0
#include <raytrain/data/dataset.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/testing/random_seed.hpp>

#include "../support/thrown_error.hpp"
#include "numbered_rows.hpp"
#include "python_tables.hpp"
#include "same_rows.hpp"

using raytrain::Column;
using raytrain::Dataset;
using raytrain::testing::random_seed;
using raytrain::testing::thrown_error;

namespace {

auto people() -> Dataset {
  return Dataset::from_columns({{"age", std::vector<float>{30, 40, 50}},
                                {"image", std::vector<std::uint8_t>{1, 2, 3, 4, 5, 6}, {2}},
                                {"label", std::vector<std::int64_t>{7, 8, 9}}});
}

/// Up to 4 columns of any types and shapes, up to 50 rows, any bits.
auto random_dataset(std::mt19937_64& random) -> Dataset {
  auto const rows = random() % 51;
  std::vector<Column> columns;
  for (std::size_t i = 0; i <= random() % 4; ++i) {
    auto const name = "c" + std::to_string(i);
    raytrain::RowShape const shape = random() % 2 == 0 ? raytrain::RowShape{} : raytrain::RowShape{1 + random() % 3, 2};
    std::size_t values = rows;
    for (auto const extent : shape) values *= extent;
    raytrain::with_element_type(static_cast<raytrain::ElementType>(random() % 12), [&]<raytrain::Element T>(T*) {
      std::vector<std::uint64_t> bits(values);
      std::ranges::generate(bits, [&] { return random(); });
      std::vector<T> filled(values);
      for (std::size_t at = 0; at < values; ++at) {
        std::ranges::copy_n(reinterpret_cast<std::byte const*>(&bits[at]), sizeof(T),
                            reinterpret_cast<std::byte*>(&filled[at]));
      }
      columns.emplace_back(name, std::move(filled), shape);
    });
  }
  return Dataset::from_columns(std::move(columns));
}

}  // namespace

TEST_CASE("columns are selected in the order that is asked for, and share the memory") {
  auto const dataset = people();
  auto const some = dataset.select_columns({"label", "age"});
  CHECK(some.column_names() == std::vector<std::string>{"label", "age"});
  CHECK(some.rows() == 3);
  CHECK(some.column("age").bytes().data() == dataset.column("age").bytes().data());
  CHECK(thrown_error([&] { (void)dataset.select_columns({"ages"}); }) ==
        "not_found: column 'ages': is not in the dataset, which has age (float32, scalar), image (uint8, 2), label "
        "(int64, scalar); name one of them");
  CHECK(thrown_error([&] {
          (void)dataset.select_columns({"age", "age"});
        }) == "invalid_call: Dataset::select_columns: 'age' is named twice; name each column once");
  CHECK(thrown_error([&] { (void)dataset.select_columns({}); }) ==
        "invalid_call: Dataset::select_columns: got no name; name at least one column");
}

TEST_CASE("what is dropped is gone, and one that is not there or the last one cannot be") {
  auto const dataset = people();
  CHECK(dataset.drop_columns({"age"}).column_names() == std::vector<std::string>{"image", "label"});
  CHECK(dataset.drop_columns({"label", "age"}).column_names() == std::vector<std::string>{"image"});
  CHECK(dataset.drop_columns({}).column_names() == dataset.column_names());
  CHECK(Dataset::of_rows(3).drop_columns({}).rows() == 3);
  raytrain::testing::check_contains(thrown_error([&] { (void)dataset.drop_columns({"size"}); }),
                                    "not_found: column 'size': is not in the dataset");
  CHECK(thrown_error([&] {
          (void)dataset.drop_columns({"age", "image", "label"});
        }) == "invalid_call: Dataset::drop_columns: no column would be left; keep at least one");
}

TEST_CASE("columns are renamed all at once, so that two can change their names") {
  auto const dataset = people();
  CHECK(dataset.rename_columns({{"age", "years"}}).column_names() ==
        std::vector<std::string>{"years", "image", "label"});
  auto const changed = dataset.rename_columns({{"age", "label"}, {"label", "age"}});
  CHECK(changed.column_names() == std::vector<std::string>{"label", "image", "age"});
  CHECK(changed.column("label").bytes().data() == dataset.column("age").bytes().data());
  raytrain::testing::check_contains(thrown_error([&] {
                                      (void)dataset.rename_columns({{"size", "age"}});
                                    }),
                                    "not_found: column 'size': is not in the dataset");
  CHECK(thrown_error([&] {
          (void)dataset.rename_columns({{"age", "label"}});
        }) ==
        "invalid_call: Dataset::rename_columns: two columns would be named 'label'; give each column its own name");
  raytrain::testing::check_contains(thrown_error([&] {
                                      (void)dataset.rename_columns({{"age", ""}});
                                    }),
                                    "invalid_data: column: its name is empty");
}

TEST_CASE("a column takes the place of the one of its name, or the last place, unless its rows are others") {
  auto const dataset = Dataset::from_columns({{"a", std::vector<float>{1, 2}}, {"b", std::vector<float>{3, 4}}});
  auto const changed = dataset.with_column({"a", std::vector<double>{5, 6}});
  CHECK(changed.column_names() == std::vector<std::string>{"a", "b"});
  CHECK(changed.column("a").as<double>()[1] == 6);
  CHECK(dataset.with_column({"c", std::vector<float>{7, 8}}).column_names().back() == "c");
  raytrain::testing::check_contains(thrown_error([&] {
                                      (void)dataset.with_column({"a", std::vector<float>{1}});
                                    }),
                                    "invalid_call: Dataset::with_column('a'): it has 1 rows, and the dataset has 2");
}

TEST_CASE("a column is added behind the others, unless its name is taken or its rows are others") {
  auto const dataset = people();
  auto const more = dataset.add_column({"weight", std::vector<double>{1, 2, 3}});
  CHECK(more.column_names() == std::vector<std::string>{"age", "image", "label", "weight"});
  CHECK(more.column("weight").as<double>()[2] == 3);
  CHECK(dataset.columns().size() == 3);
  CHECK(thrown_error([&] {
          (void)dataset.add_column({"age", std::vector<double>{1, 2, 3}});
        }) ==
        "invalid_call: Dataset::add_column('age'): there is a column of that name; give it another name, or replace "
        "that one by with_column");
  CHECK(thrown_error([&] {
          (void)dataset.add_column({"weight", std::vector<double>{1, 2}});
        }) ==
        "invalid_call: Dataset::add_column('weight'): it has 2 rows, and the dataset has 3; give it as many rows");
}

TEST_CASE("hundreds of thousands of columns are each found by name, where they are kept, dropped or renamed") {
  std::vector<std::string> names;
  std::vector<Column> columns;
  std::map<std::string, std::string> other_names;
  for (auto i = 0; i < 300'000; ++i) {  // whose squared number of comparisons would take minutes
    names.push_back("column " + std::to_string(1'000'000 + i));
    columns.emplace_back(names.back(), std::vector{static_cast<float>(i)});
    other_names[names.back()] = "other " + std::to_string(i);
  }
  auto const dataset = Dataset::from_columns(std::move(columns));
  std::vector<std::string> const backwards{names.rbegin(), names.rend()};
  CHECK(dataset.select_columns(backwards).columns().front().as<float>()[0] == 299'999);
  CHECK(dataset.drop_columns({backwards.begin(), backwards.end() - 1}).column_names() == std::vector{names.front()});
  CHECK(dataset.rename_columns(other_names).columns().back().name() == "other 299999");
}

TEST_CASE("a union has the rows of one after those of the other, whatever the order of its columns") {
  auto const dataset = people();
  auto const both = dataset.union_with(dataset.head(1).select_columns({"label", "image", "age"}));
  CHECK(both.column_names() == dataset.column_names());
  CHECK(both.rows() == 4);
  CHECK(both.column("age").as<float>()[3] == 30);
  CHECK(both.column("image").as<std::uint8_t>()[7] == 2);
  CHECK(both.column("label").as<std::int64_t>()[3] == 7);
  CHECK(Dataset{}.union_with(dataset).digest() == dataset.digest());
  CHECK(dataset.union_with({}).digest() == dataset.digest());
  CHECK(Dataset::of_rows(3).union_with(Dataset::of_rows(4)).rows() == 7);
}

TEST_CASE("a union of datasets whose columns differ is refused with all that differs") {
  auto const dataset = people();
  auto const other = Dataset::from_columns({{"image", std::vector<std::uint8_t>{1, 2, 3}, {3}},
                                            {"label", std::vector<std::int32_t>{7}},
                                            {"size", std::vector<float>{1}}});
  CHECK(thrown_error([&] { (void)dataset.union_with(other); }) ==
        "invalid_data: Dataset::union_with: part 2 has other columns than part 1: 'age' is missing, image (uint8, 2) "
        "is here image (uint8, 3), label (int64, scalar) is here label (int32, scalar), 'size' is new; give all of "
        "them the same names, types and row shapes");
}

TEST_CASE("rows are split at each index, and indices that do not ascend or are not there are refused") {
  auto const dataset = numbered(10);
  auto const parts = dataset.split_at_indices({3, 3, 8});
  REQUIRE(parts.size() == 4);
  CHECK(numbers_of(parts[0]) == std::vector<std::int64_t>{0, 1, 2});
  CHECK(parts[1].rows() == 0);
  CHECK(numbers_of(parts[2]) == std::vector<std::int64_t>{3, 4, 5, 6, 7});
  CHECK(numbers_of(parts[3]) == std::vector<std::int64_t>{8, 9});
  CHECK(dataset.split_at_indices({}).size() == 1);
  CHECK(dataset.split_at_indices({10}).back().rows() == 0);
  CHECK(thrown_error([&] {
          (void)dataset.split_at_indices({3, 2});
        }) ==
        "invalid_call: Dataset::split_at_indices({3, 2}): 2 follows 3; name rows that it has, in ascending order");
  CHECK(thrown_error([&] { (void)dataset.split_at_indices({11}); }) ==
        "invalid_call: Dataset::split_at_indices({11}): the dataset has only 10 rows; name rows that it has, in "
        "ascending order");
}

TEST_CASE("a random table that is split anywhere, and joined again, is the table, bit by bit") {
  std::mt19937_64 random{raytrain::testing::random_seed()};
  for (auto round = 0; round < 30; ++round) {
    auto const table = raytrain::testing::random_table(random, 1 + random() % 300);
    std::vector<std::size_t> indices(random() % 8);
    for (auto& index : indices) index = random() % (table.rows() + 1);
    std::ranges::sort(indices);
    auto const parts = table.split_at_indices(indices);
    REQUIRE(parts.size() == indices.size() + 1);
    auto joined = parts.front();
    for (std::size_t part = 1; part < parts.size(); ++part) joined = joined.union_with(parts[part]);
    raytrain::testing::check_same_rows(joined, table);
  }
}

TEST_CASE("rows come as often as they are repeated, one whole round after the other") {
  CHECK(numbers_of(numbered(2).repeat(3)) == std::vector<std::int64_t>{0, 1, 0, 1, 0, 1});
  CHECK(numbered(0).repeat(3).rows() == 0);
  CHECK(Dataset::of_rows(5).repeat(4).rows() == 20);
  CHECK(thrown_error([&] { (void)numbered(2).repeat(0); }) ==
        "invalid_call: Dataset::repeat(0): leaves no rows; repeat at least once, which is the rows as they are");
  raytrain::testing::check_contains(
      thrown_error([&] { (void)numbered(2).repeat(std::numeric_limits<std::size_t>::max() / 2); }),
      "so many times 2 rows cannot be counted; repeat less often");
}

TEST_CASE("shuffled rows are the same rows in another order, which is the same for the same seed") {
  auto const seed = random_seed();
  auto const dataset = numbered(1000);
  auto const shuffled = numbers_of(dataset.random_shuffle(seed));
  CHECK(shuffled == numbers_of(numbered(1000).random_shuffle(seed)));
  CHECK(shuffled != numbers_of(dataset.random_shuffle(seed + 1)));
  CHECK(shuffled != numbers_of(dataset));
  auto sorted = shuffled;
  std::ranges::sort(sorted);
  CHECK(sorted == numbers_of(dataset));
}

TEST_CASE("the parts of a dataset, joined again, are the dataset, bit by bit") {
  std::mt19937_64 random{random_seed()};
  for (auto round = 0; round < 100; ++round) {
    auto const dataset = random_dataset(random);
    std::vector<std::size_t> indices(random() % 4);
    std::ranges::generate(indices, [&] { return random() % (dataset.rows() + 1); });
    std::ranges::sort(indices);
    Dataset joined;
    for (auto const& part : dataset.split_at_indices(indices)) joined = joined.union_with(part);
    CHECK(joined.rows() == dataset.rows());
    CHECK(joined.digest() == dataset.digest());
  }
}

TEST_CASE("more rows than can be counted are not joined") {
  auto const many = raytrain::Dataset::of_rows(std::size_t{1} << 63U);
  CHECK(thrown_error([&] { (void)many.union_with(many); }).find("more rows than can be counted") != std::string::npos);
}
