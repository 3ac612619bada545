// SPDX-License-Identifier: Apache-2.0
#include <raytrain/preprocess/value_quantiles.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/data/dataset.hpp>
#include <raytrain/preprocess/fit_rows.hpp>
#include <raytrain/testing/random_seed.hpp>

#include "../support/thrown_error.hpp"
#include "fit_workers.hpp"
#include "random_numbers.hpp"

using raytrain::Dataset;
using raytrain::FitRows;
using raytrain::testing::check_contains;
using raytrain::testing::learnt_by_workers;
using raytrain::testing::missing;
using raytrain::testing::random_numbers;
using raytrain::testing::random_seed;
using raytrain::testing::thrown_error;

TEST_CASE("quantiles are those of the sorted values, at any number of workers") {
  std::mt19937_64 random{random_seed()};
  std::vector<double> const at{0, 0.25, 0.5, 0.9, 1};
  for (auto const rows : {1U, 2U, 5U, 4'000U, 30'000U}) {
    CAPTURE(rows);
    auto values = random_numbers(rows, random);
    values[0] = -0.0;
    if (rows > 2) values[1] = -1e300;
    auto const dataset = Dataset::from_columns({{"x", values}});
    std::erase_if(values, [](double value) { return std::isnan(value); });
    std::ranges::sort(values);
    auto const learn = [&](FitRows const& from) { return value_quantiles(from, "x", at, "a test").at(0); };
    auto const quantiles = learn(dataset);
    for (std::size_t i = 0; i < at.size(); ++i) {
      auto const place = at[i] * static_cast<double>(values.size() - 1);
      auto const low = static_cast<std::size_t>(place);
      auto const high = std::min(low + 1, values.size() - 1);
      auto const expected = values[low] + (values[high] - values[low]) * (place - std::floor(place));
      CHECK(quantiles[i] == doctest::Approx(expected).epsilon(1e-12));
    }
    for (auto const& of_worker : learnt_by_workers(dataset, 3, learn)) CHECK(of_worker == quantiles);
  }
}

TEST_CASE("any number of quantiles is found, of each place of a row") {
  std::vector<double> values;
  for (auto i = 0; i <= 500; ++i) values.insert(values.end(), {500.0 - i, 3.0 * i});
  std::vector<double> at;
  for (auto i = 0; i <= 100; ++i) at.push_back(i / 100.0);
  auto const quantiles = value_quantiles(Dataset::from_columns({{"x", values, {2}}}), "x", at, "a test");
  REQUIRE(quantiles.size() == 2);
  for (std::size_t i = 0; i <= 100; ++i) {
    CHECK(quantiles[0].at(i) == doctest::Approx(5.0 * static_cast<double>(i)));
    CHECK(quantiles[1].at(i) == doctest::Approx(15.0 * static_cast<double>(i)));
  }
}

TEST_CASE("quantiles of no values are NaN") {
  auto const dataset = Dataset::from_columns({{"x", std::vector<double>{missing, missing}}});
  CHECK(std::isnan(value_quantiles(dataset, "x", {0.5}, "a test").at(0).at(0)));
}

TEST_CASE("quantiles of values too many of which lie close to them to be kept are the same") {
  std::mt19937_64 random{random_seed()};
  std::vector<double> const at{0, 0.1, 0.5, 0.51, 1};
  auto const dataset = Dataset::from_columns({{"x", random_numbers(11 * 3'000, random), {11}}});
  auto const quantiles = value_quantiles(dataset, "x", at, "a test");
  REQUIRE(quantiles.size() == 11);
  for (auto const kept : {0U, 11U, 100U, 20'000U}) {
    CAPTURE(kept);
    CHECK(raytrain::detail::find_quantiles(dataset, "x", at, "a test", kept) == quantiles);
  }
}

TEST_CASE("workers of which some keep what the others cannot find the same quantiles") {
  std::mt19937_64 random{random_seed()};
  auto values = random_numbers(400, random);
  for (std::size_t i = 0; i < 200; ++i) values[i] = -static_cast<double>(i);
  auto const dataset = Dataset::from_columns({{"x", values}});
  auto const learn = [](FitRows const& rows) {
    return raytrain::detail::find_quantiles(rows, "x", {0.9, 0.99}, "a test", 100);
  };
  auto const alone = value_quantiles(dataset, "x", {0.9, 0.99}, "a test");
  for (auto const& of_worker : learnt_by_workers(dataset, 2, learn)) CHECK(of_worker == alone);
}

TEST_CASE("an infinite value is refused on all workers, and the largest finite ones are not") {
  constexpr auto largest = std::numeric_limits<double>::max();
  auto const learn = [](FitRows const& rows) {
    return thrown_error([&] { (void)value_quantiles(rows, "x", {0, 1}, "Scaler::fit"); });
  };
  for (auto const value : {std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()}) {
    auto const dataset = Dataset::from_columns({{"x", std::vector<double>{1, 0, largest, 0, 0, value}, {2}}});
    for (auto const& error : learnt_by_workers(dataset, 3, learn)) {
      check_contains(error, "Scaler::fit: column 'x' has an infinite value");
    }
  }
  auto const dataset =
      Dataset::from_columns({{"x", std::vector<double>{-largest, std::copysign(missing, -1.0), largest}}});
  CHECK(value_quantiles(dataset, "x", {0, 1}, "a test").at(0) == std::vector<double>{-largest, largest});
}

TEST_CASE("quantiles that are none are refused, and of none there are none") {
  auto const dataset = Dataset::from_columns({{"x", std::vector<float>{1, 2}}});
  for (auto const at : {-0.1, 1.1, missing}) {
    check_contains(thrown_error([&] {
                     (void)value_quantiles(dataset, "x", {0.5, at}, "Scaler::fit");
                   }),
                   "is not from 0 to 1");
  }
  CHECK(value_quantiles(dataset, "x", {}, "a test") == std::vector<std::vector<double>>{{}});
}
