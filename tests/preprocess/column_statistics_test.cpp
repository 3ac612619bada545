// SPDX-License-Identifier: Apache-2.0
#include <raytrain/preprocess/column_statistics.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/core/bytes.hpp>
#include <raytrain/core/element_type.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/preprocess/count_vectorizer.hpp>
#include <raytrain/preprocess/fit_rows.hpp>
#include <raytrain/preprocess/value_quantiles.hpp>
#include <raytrain/testing/random_seed.hpp>

#include "../support/thrown_error.hpp"
#include "fit_workers.hpp"
#include "random_numbers.hpp"

using raytrain::Column;
using raytrain::Dataset;
using raytrain::FitRows;
using raytrain::testing::check_contains;
using raytrain::testing::learnt_by_workers;
using raytrain::testing::random_numbers;
using raytrain::testing::random_seed;
using raytrain::testing::thrown_error;

namespace {

constexpr auto nan = std::numeric_limits<double>::quiet_NaN();

auto bits_of(std::vector<raytrain::ValueMoments> const& moments) -> std::vector<std::uint64_t> {
  std::vector<std::uint64_t> bits;
  for (auto const& of_value : moments) {
    bits.push_back(of_value.count);
    bits.push_back(std::bit_cast<std::uint64_t>(of_value.mean));
    bits.push_back(std::bit_cast<std::uint64_t>(of_value.squares));
  }
  return bits;
}

/// Moments of rows of so many values are those of sums in long double.
void check_moments(std::vector<double> const& values, std::size_t width) {
  CAPTURE(width);
  auto const moments = value_moments(Dataset::from_columns({{"x", values, {width}}}), "x", "a test");
  REQUIRE(moments.size() == width);
  for (std::size_t place = 0; place < width; ++place) {
    long double sum = 0;
    std::uint64_t count = 0;
    for (auto at = place; at < values.size(); at += width) {
      if (std::isnan(values[at])) continue;
      sum += values[at];
      ++count;
    }
    auto const mean = sum / static_cast<long double>(count);
    long double squares = 0;
    for (auto at = place; at < values.size(); at += width) {
      if (!std::isnan(values[at])) squares += (values[at] - mean) * (values[at] - mean);
    }
    CHECK(moments[place].count == count);
    CHECK(std::abs(moments[place].mean / static_cast<double>(mean) - 1) < 1e-15);
    CHECK(std::abs(moments[place].squares / static_cast<double>(squares) - 1) < 1e-10);
  }
}

TEST_CASE("moments are those of a sum in long double, also of numbers that are large beside their differences") {
  std::mt19937_64 random{random_seed()};
  for (auto const width : {1U, 3U, 8U, 11U}) {
    check_moments(random_numbers((3000 + random() % 3000) * width, random), width);
  }
}

TEST_CASE("moments of values far beside their differences are exact, whatever the width of the rows") {
  std::mt19937_64 random{random_seed()};
  std::normal_distribution<double> normal{1e12, 1};
  for (auto const width : {1U, 8U, 300U}) {
    std::vector<double> values((600 + random() % 3000) * width);
    for (auto& value : values) value = random() % 1000 == 0 ? nan : normal(random);
    check_moments(values, width);
  }
}

TEST_CASE("squares beyond float64 are refused, also where the error of their mean is beyond it") {
  std::vector<double> values(std::size_t{8} * 128);
  for (int i = 0; i < 8 * 128; ++i) values.push_back(i / 8 % 2 == 0 ? 9e152 : 1.9e153);
  check_contains(thrown_error([&] {
                   (void)value_moments(Dataset::from_columns({{"x", values, {8}}}), "x", "a test");
                 }),
                 "finite values whose sum or squares are beyond float64");
}

TEST_CASE("moments are as exact where nothing is missing, in any order of the values") {
  std::mt19937_64 random{random_seed()};
  std::normal_distribution<double> normal{1e6, 3};
  for (auto const width : {2U, 8U, 11U}) {
    std::vector<double> values((3000 + random() % 3000) * width);
    for (auto& value : values) value = normal(random);
    check_moments(values, width);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += static_cast<double>(i);  // the mean wanders away
    check_moments(values, width);
    for (std::size_t i = 0; i < values.size() / 2; ++i) values[i] -= 1e12;
    check_moments(values, width);
    values[values.size() / 2] = nan;
    check_moments(values, width);
  }
}

TEST_CASE("any number of workers learns the same moments, bit by bit") {
  std::mt19937_64 random{random_seed()};
  auto const dataset = Dataset::from_columns({{"x", random_numbers(2 * 20'011, random), {2}}});
  auto const learn = [](FitRows const& rows) { return bits_of(value_moments(rows, "x", "a test")); };
  auto const alone = learn(dataset);
  for (std::uint32_t const workers : {1, 2, 3, 7}) {
    CAPTURE(workers);
    for (auto const& of_worker : learnt_by_workers(dataset, workers, learn)) CHECK(of_worker == alone);
  }
}

TEST_CASE("workers that outnumber the rows learn the same, too") {
  auto const dataset = Dataset::from_columns({{"x", std::vector<float>{3, 1, 2}}});
  auto const learnt =
      learnt_by_workers(dataset, 5, [](FitRows const& rows) { return value_quantiles(rows, "x", {0.5}, "a test"); });
  for (auto const& of_worker : learnt) CHECK(of_worker == std::vector<std::vector<double>>{{2}});
}

TEST_CASE("ranges leave missing values out, and of nothing but those they are empty") {
  auto const dataset = Dataset::from_columns(
      {{"x", std::vector<double>{nan, -3, 7, nan}}, {"gaps", std::vector<float>(4, std::nanf(""))}});
  auto const range = value_ranges(dataset, "x", "a test").at(0);
  CHECK(range.min == -3);
  CHECK(range.max == 7);
  CHECK(value_ranges(dataset, "gaps", "a test").at(0).is_empty());
}

TEST_CASE("counts are by value in ascending order, without missing ones") {
  auto const dataset = Dataset::from_columns({Column::of_texts("city", {"Rome", "Oslo", std::nullopt, "Rome"}),
                                              {"n", std::vector<double>{2, 0.0, nan, -0.0}}});
  auto const cities = value_counts(dataset, "city", "a test");
  CHECK(cities.texts == std::vector<std::string>{"Oslo", "Rome"});
  CHECK(cities.counts == std::vector<std::uint64_t>{1, 2});
  auto const numbers = value_counts(dataset, "n", "a test");
  CHECK(numbers.numbers == std::vector<double>{0, 2});
  CHECK(numbers.counts == std::vector<std::uint64_t>{2, 1});
}

TEST_CASE("counts of several workers are of all their rows, in which texts have other codes") {
  std::vector<std::optional<std::string>> cities;
  for (auto i = 0; i < 5'000; ++i) cities.emplace_back(i < 3'000 ? "Rome" : i % 2 == 0 ? "Bern" : "Oslo");
  auto const dataset = Dataset::from_columns({Column::of_texts("city", cities)});
  auto const learnt =
      learnt_by_workers(dataset, 4, [](FitRows const& rows) { return value_counts(rows, "city", "a test").counts; });
  for (auto const& of_worker : learnt) CHECK(of_worker == std::vector<std::uint64_t>{1'000, 1'000, 3'000});
}

TEST_CASE("an infinite value is refused on every worker, and by all statistics of numbers") {
  std::vector<float> values(3'000, 1);
  values[2'999] = -std::numeric_limits<float>::infinity();
  auto const dataset = Dataset::from_columns({{"x", values}});
  auto const refused = "column 'x' has an infinite value";
  check_contains(thrown_error([&] { (void)value_moments(dataset, "x", "Scaler::fit"); }), refused);
  check_contains(thrown_error([&] { (void)value_ranges(dataset, "x", "Scaler::fit"); }), refused);
  check_contains(thrown_error([&] { (void)value_quantiles(dataset, "x", {0.5}, "Scaler::fit"); }), refused);
  auto const of_workers = learnt_by_workers(dataset, 2, [](FitRows const& rows) {
    return thrown_error([&] { (void)value_moments(rows, "x", "Scaler::fit"); });
  });
  for (auto const& error : of_workers) check_contains(error, refused);
}

TEST_CASE("text where numbers are asked for, and more values than categories can be, are refused") {
  std::vector<std::int32_t> many((1U << 20U) + 1);
  for (std::size_t i = 0; i < many.size(); ++i) many[i] = static_cast<std::int32_t>(i);
  auto const dataset = Dataset::from_columns({{"id", many}});
  check_contains(thrown_error([&] { (void)value_counts(dataset, "id", "Encoder::fit"); }),
                 "column 'id' has more than 1048576 different values");
  auto const text = Dataset::from_columns({Column::of_texts("city", {"Rome"})});
  check_contains(thrown_error([&] { (void)value_moments(text, "city", "Scaler::fit"); }), "holds text");
  check_contains(thrown_error([&] { (void)value_moments(text, "town", "Scaler::fit"); }), "city");
}

TEST_CASE("texts that are too many to be categories are refused before they travel") {
  std::vector<std::string> texts((std::size_t{1} << 20U) + 5);
  std::vector<std::int32_t> codes(texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    texts[i] = std::to_string(10'000'000 + i);
    codes[i] = static_cast<std::int32_t>(i);
  }
  auto const owner = std::make_shared<std::vector<std::int32_t> const>(std::move(codes));
  auto const dataset = Dataset::from_columns({Column{
      raytrain::ColumnFormat{
          "key", raytrain::ElementType::int32, {}, std::make_shared<std::vector<std::string> const>(std::move(texts))},
      {owner, reinterpret_cast<std::byte const*>(owner->data())},
      owner->size()}});
  std::size_t most_bytes = 0;
  FitRows const rows{dataset, FitRows::Part{}, [&](raytrain::Bytes mine) {
                       most_bytes = std::max(most_bytes, mine.size());
                       return std::vector<raytrain::Bytes>{std::move(mine)};
                     }};
  auto const refused = "column 'key' has more than 1048576 different values";
  check_contains(thrown_error([&] { (void)value_counts(rows, "key", "Encoder::fit"); }), refused);
  check_contains(thrown_error([&] { raytrain::CountVectorizer{{"key"}}.fit(rows); }), refused);
  CHECK(most_bytes < 1'000);
}

TEST_CASE("finite values whose squares are beyond float64 are not said to be infinite, and have a mean") {
  auto const infinity = std::numeric_limits<double>::infinity();
  auto const dataset = Dataset::from_columns(
      {{"x", std::vector<double>{1e200, -3e200, 5e200}}, {"far", std::vector<double>{1, infinity, 2}}});
  check_contains(thrown_error([&] { (void)value_moments(dataset, "x", "Scaler::fit"); }),
                 "invalid_data: Scaler::fit: column 'x' has finite values whose sum or squares are beyond float64");
  auto const means = raytrain::value_means(dataset, "x", "Imputer::fit");
  REQUIRE(means.size() == 1);
  CHECK(means[0] == doctest::Approx(1e200));
  check_contains(thrown_error([&] { (void)raytrain::value_means(dataset, "far", "Imputer::fit"); }),
                 "column 'far' has an infinite value");
  check_contains(thrown_error([&] { (void)value_counts(dataset, "far", "Encoder::fit"); }),
                 "Encoder::fit: column 'far' has an infinite value");
}

}  // namespace
