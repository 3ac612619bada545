// SPDX-License-Identifier: Apache-2.0
#include <raytrain/data/dataset_text.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/core/float16.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/describe.hpp>
#include <raytrain/testing/random_seed.hpp>

#include "numbered_rows.hpp"

using raytrain::Dataset;
using raytrain::describe;

namespace {
constexpr auto no_value = std::numeric_limits<double>::quiet_NaN();

auto summary_of(std::vector<double> values) -> raytrain::ColumnSummary {
  return describe(Dataset::from_columns({{"x", std::move(values)}})).front();
}
}  // namespace

TEST_CASE("the first rows are a table with names, types and flush columns, and how many there are in all") {
  auto const dataset =
      Dataset::from_columns({{"age", std::vector<float>{30, 0.1F, 1234567}},
                             {"größe", std::vector<std::int8_t>{-1, 2, 100}},
                             {"pixels", std::vector<std::uint8_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, {2, 2}},
                             {"pair", std::vector<raytrain::Float16>(6, raytrain::Float16{0.5F}), {2}}});
  CHECK(raytrain::to_string(dataset, 2) ==
        "    age  größe          pixels        pair\n"
        "float32   int8     uint8 2 x 2   float16 2\n"
        "     30     -1  [1, 2, 3, ...]  [0.5, 0.5]\n"
        "    0.1      2  [5, 6, 7, ...]  [0.5, 0.5]\n"
        "3 rows\n");
  auto const all = raytrain::to_string(dataset);
  CHECK(all.find("1.23457e+06    100  [9, 10, 11, ...]") != std::string::npos);
  CHECK(all.find("rows") == std::string::npos);
  CHECK(std::ranges::count(raytrain::to_string(numbered(100)), '\n') == 23);
  CHECK(raytrain::to_string(Dataset::of_rows(7)) == "7 rows\n");
}

TEST_CASE("a name that would break the lines is shown without its control characters") {
  CHECK(raytrain::to_string(Dataset::from_columns({{"a\nb\tc", std::vector<float>{1}}})) ==
        "  a?b?c\nfloat32\n      1\n");
}

TEST_CASE("columns are described by count, mean, deviation and quartiles, as numpy has them") {
  auto const summary = summary_of({4, no_value, 1, 2, 10});
  CHECK(summary.column == "x");
  CHECK(summary.count == 4);
  CHECK(summary.mean == 4.25);
  CHECK(summary.std == doctest::Approx(4.031128874149275));
  CHECK(summary.min == 1);
  CHECK(summary.lower_quartile == 1.75);
  CHECK(summary.median == 3);
  CHECK(summary.upper_quartile == 5.5);
  CHECK(summary.max == 10);
  auto const one = summary_of({7});
  CHECK(one.lower_quartile == 7);
  CHECK(std::isnan(one.std));
  auto const none = summary_of({no_value});
  CHECK(none.count == 0);
  for (auto const value : {none.mean, none.std, none.min, none.median, none.max}) CHECK(std::isnan(value));
  auto const infinite = summary_of({-HUGE_VAL, -HUGE_VAL, HUGE_VAL, HUGE_VAL, HUGE_VAL});
  CHECK(infinite.lower_quartile == -HUGE_VAL);
  CHECK(infinite.max == HUGE_VAL);
}

TEST_CASE("quartiles of random values are those of the sorted ones") {
  std::mt19937_64 random{raytrain::testing::random_seed()};
  for (auto round = 0; round < 50; ++round) {
    std::vector<std::int16_t> values(1 + 4 * (random() % 50));  // where the quartiles are values
    std::ranges::generate(values, [&] { return static_cast<std::int16_t>(random()); });
    auto const summary = describe(Dataset::from_columns({{"x", values}})).front();
    std::ranges::sort(values);
    CHECK(summary.min == values.front());
    CHECK(summary.lower_quartile == values[values.size() / 4]);
    CHECK(summary.median == values[values.size() / 2]);
    CHECK(summary.upper_quartile == values[values.size() / 4 * 3]);
    CHECK(summary.max == values.back());
  }
}

TEST_CASE("summaries are a table with a line for each column, and count all values of a row") {
  auto const dataset = Dataset::from_columns(
      {{"age", std::vector<float>{10, 20}}, {"image", std::vector<std::uint8_t>{1, 2, 3, 4}, {2}}});
  CHECK(raytrain::to_string(describe(dataset)) ==
        "column  count  mean      std  min   25%  50%   75%  max\n"
        "age         2    15  7.07107   10  12.5   15  17.5   20\n"
        "image       4   2.5  1.29099    1  1.75  2.5  3.25    4\n");
}
