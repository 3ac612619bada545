// SPDX-License-Identifier: Apache-2.0
#include <raytrain/data/train_test_split.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/data/dataset.hpp>
#include <raytrain/testing/random_seed.hpp>

#include "../support/thrown_error.hpp"
#include "column_values.hpp"
#include "numbered_rows.hpp"

using raytrain::Dataset;
using raytrain::train_test_split;
using raytrain::testing::check_contains;
using raytrain::testing::random_seed;
using raytrain::testing::thrown_error;
using raytrain::testing::values_of;

namespace {

/// Numbered rows of classes of random sizes.
auto with_classes(std::mt19937_64& random, std::size_t rows) -> Dataset {
  auto const classes = 1 + random() % 7;
  std::vector<std::int64_t> values(rows);
  std::ranges::generate(values, [&] { return static_cast<std::int64_t>(std::min(random() % classes, random() % 7)); });
  return numbered(rows).add_column({"class", std::move(values)});
}

auto sizes_of(Dataset const& dataset) -> std::map<std::int64_t, std::size_t> {
  std::map<std::int64_t, std::size_t> sizes;
  for (auto const value : values_of<std::int64_t>(dataset, "class")) ++sizes[value];
  return sizes;
}

void check_each_row_once(Dataset const& dataset, std::pair<Dataset, Dataset> const& parts) {
  auto rows = values_of<std::int64_t>(parts.first.union_with(parts.second), "number");
  std::ranges::sort(rows);
  CHECK(rows == values_of<std::int64_t>(dataset, "number"));
}

}  // namespace

TEST_CASE("a fraction of the rows is held out, by random, and the same ones for the same seed") {
  auto const seed = random_seed();
  auto const dataset = numbered(569);
  auto const [train, test] = train_test_split(dataset, 0.3, {.seed = seed});
  CHECK(train.rows() == 398);
  CHECK(test.rows() == 171);
  check_each_row_once(dataset, {train, test});
  CHECK_FALSE(std::ranges::is_sorted(values_of<std::int64_t>(test, "number")));
  CHECK(values_of<std::int64_t>(train_test_split(dataset, 0.3, {.seed = seed}).second, "number") ==
        values_of<std::int64_t>(test, "number"));
  CHECK(values_of<std::int64_t>(train_test_split(dataset, 0.3, {.seed = seed + 1}).second, "number") !=
        values_of<std::int64_t>(test, "number"));
}

TEST_CASE("without a shuffle the last rows are held out, and none is copied") {
  auto const dataset = numbered(10);
  auto const [train, test] = train_test_split(dataset, 0.2, {.shuffle = false});
  CHECK(values_of<std::int64_t>(test, "number") == std::vector<std::int64_t>{8, 9});
  CHECK(train.column("number").bytes().data() == dataset.column("number").bytes().data());
}

TEST_CASE("each class has its share in both parts, right to one row") {
  std::mt19937_64 random{random_seed()};
  for (auto round = 0; round < 200; ++round) {
    auto const dataset = with_classes(random, 5 + random() % 100);
    auto const fraction = 0.2 + 0.6 * static_cast<double>(random() % 1000) / 1000;
    auto const parts =
        train_test_split(dataset, fraction, {.seed = random(), .shuffle = round % 4 != 0, .stratify = "class"});
    check_each_row_once(dataset, parts);
    CHECK(std::abs(static_cast<double>(parts.second.rows()) - fraction * static_cast<double>(dataset.rows())) <= 0.5);
    auto held_out = sizes_of(parts.second);
    for (auto const& [value, rows] : sizes_of(dataset)) {
      CAPTURE(value);
      CHECK(std::abs(static_cast<double>(held_out[value]) - fraction * static_cast<double>(rows)) < 1);
    }
  }
}

TEST_CASE("stratified parts are shuffled, each class by each seed in another way, or keep their order") {
  std::vector<std::int64_t> classes(100);
  std::fill_n(classes.begin(), 20, 1);
  auto const dataset = numbered(100).add_column({"class", std::move(classes)});
  auto const held_out = [&](raytrain::SplitOptions const& options) {
    return values_of<std::int64_t>(train_test_split(dataset, 0.1, options).second, "number");
  };
  CHECK(held_out({.shuffle = false, .stratify = "class"}) ==
        std::vector<std::int64_t>{18, 19, 92, 93, 94, 95, 96, 97, 98, 99});
  CHECK(held_out({.seed = 1, .stratify = "class"}) != held_out({.seed = 2, .stratify = "class"}));
  CHECK_FALSE(std::ranges::is_sorted(held_out({.seed = 1, .stratify = "class"})));
}

TEST_CASE("no group is in both parts, each has one, and the test is within half a group of its fraction") {
  std::mt19937_64 random{random_seed()};
  for (auto round = 0; round < 200; ++round) {
    auto const dataset = with_classes(random, 20 + random() % 100);
    auto const sizes = sizes_of(dataset);
    if (sizes.size() < 2) continue;
    auto const fraction = 0.1 + 0.8 * static_cast<double>(random() % 1000) / 1000;
    auto const parts =
        train_test_split(dataset, fraction, {.seed = random(), .shuffle = round % 4 != 0, .group = "class"});
    check_each_row_once(dataset, parts);
    auto const train = sizes_of(parts.first);
    auto const test = sizes_of(parts.second);
    CHECK_FALSE(train.empty());
    CHECK_FALSE(test.empty());
    CHECK(train.size() + test.size() == sizes.size());
    auto largest = 0.0;
    for (auto const& [value, rows] : sizes) largest = std::max(largest, static_cast<double>(rows));
    auto const away =
        std::abs(static_cast<double>(parts.second.rows()) - fraction * static_cast<double>(dataset.rows()));
    if (train.size() > 1 && test.size() > 1) CHECK(away <= largest / 2 + 0.5);
  }
}

TEST_CASE("groups are held out by random, or the last ones without a shuffle") {
  std::vector<std::int64_t> groups(100);
  for (std::size_t i = 0; i < groups.size(); ++i) groups[i] = 50 - static_cast<std::int64_t>(i / 10);
  auto const dataset = numbered(100).add_column({"class", std::move(groups)});
  auto const held_out = [&](raytrain::SplitOptions const& options) {
    return values_of<std::int64_t>(train_test_split(dataset, 0.3, options).second, "number");
  };
  auto const last = held_out({.shuffle = false, .group = "class"});
  CHECK(last.size() == 30);
  CHECK(last.front() == 70);
  std::set<std::vector<std::int64_t>> different;
  for (std::uint64_t seed = 0; seed < 5; ++seed) different.insert(held_out({.seed = seed, .group = "class"}));
  CHECK(different.size() > 1);
}

TEST_CASE("what cannot be divided is refused before anything is copied") {
  auto const dataset = numbered(4).add_column({"class", std::vector<std::int64_t>{7, 7, 7, 7}});
  for (auto const fraction : {0.0, 1.0, -0.5, 20.0, std::numeric_limits<double>::quiet_NaN()}) {
    check_contains(thrown_error([&] { (void)train_test_split(dataset, fraction); }),
                   "): the fraction of rows for the test must be between 0 and 1; write 0.2 for a fifth of them");
  }
  CHECK(thrown_error([&] { (void)train_test_split(dataset, 0.1); }) ==
        "invalid_call: train_test_split(0.1): of 4 rows none would be left for the test; use another fraction, or more "
        "rows");
  check_contains(thrown_error([&] { (void)train_test_split(dataset, 0.95); }), "none would be left for the training");
  check_contains(thrown_error([&] { (void)train_test_split(Dataset{}, 0.5); }), "of 0 rows none would be left");
  CHECK(thrown_error([&] { (void)train_test_split(dataset, 0.5, {.stratify = "class", .group = "number"}); }) ==
        "invalid_config: SplitOptions: names a column to stratify by, 'class', and one of groups, 'number'; write one "
        "of them");
  CHECK(thrown_error([&] { (void)train_test_split(dataset, 0.5, {.group = "class"}); }) ==
        "invalid_call: train_test_split(0.5): all rows are of one group of column 'class'; use a column that tells at "
        "least two groups apart");
  check_contains(thrown_error([&] { (void)train_test_split(dataset, 0.5, {.stratify = "label"}); }),
                 "not_found: column 'label'");
  auto const image = dataset.add_column({"image", std::vector<float>(8), {2}});
  check_contains(thrown_error([&] { (void)train_test_split(image, 0.5, {.stratify = "image"}); }),
                 "column 'image' has rows of shape 2, and not of one number");
}

TEST_CASE("of classes with equal rests, those that give a row to the test are others by another seed") {
  std::vector<std::int64_t> classes(10);
  for (std::size_t i = 0; i < classes.size(); ++i) classes[i] = static_cast<std::int64_t>(i);
  auto const dataset = numbered(10).add_column({"class", std::move(classes)});
  std::set<std::int64_t> seen;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    auto const test = train_test_split(dataset, 0.3, {.seed = seed, .stratify = "class"}).second;
    for (auto const value : values_of<std::int64_t>(test, "class")) seen.insert(value);
  }
  CHECK(seen.size() == 10);
}
