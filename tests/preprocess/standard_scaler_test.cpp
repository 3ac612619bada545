// SPDX-License-Identifier: Apache-2.0
#include <raytrain/preprocess/standard_scaler.hpp>

#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/preprocess/preprocessor.hpp>

#include "../support/thrown_error.hpp"
#include "preprocessor_checks.hpp"

using raytrain::Column;
using raytrain::Dataset;
using raytrain::StandardScaler;
using raytrain::testing::check_contains;
using raytrain::testing::gap;
using raytrain::testing::thrown_error;

static_assert(raytrain::InvertiblePreprocessor<StandardScaler>);

namespace {

TEST_CASE("a scaled column has mean 0 and deviation 1, its missing values stay, and others are left alone") {
  auto const dataset = Dataset::from_columns(
      {{"age", std::vector<double>{20, 40, gap, 60}}, {"id", std::vector<std::int32_t>{1, 2, 3, 4}}});
  StandardScaler scaler{{"age"}};
  scaler.fit(dataset);
  auto const scaled = scaler.transform(dataset);
  auto const ages = scaled.column("age").as<double>();
  CHECK(ages[0] == doctest::Approx(-std::sqrt(1.5)));
  CHECK(ages[1] == 0);
  CHECK(std::isnan(ages[2]));
  CHECK(ages[3] == doctest::Approx(std::sqrt(1.5)));
  CHECK(scaled.column("id").as<std::int32_t>()[3] == 4);
  auto const back = scaler.inverse_transform(scaled).column("age");
  CHECK(back.as<double>()[0] == doctest::Approx(20));
  CHECK(back.as<double>()[3] == doctest::Approx(60));
}

TEST_CASE("each place of a row is scaled by itself, and whole numbers become float32") {
  auto const dataset = Dataset::from_columns({{"x", std::vector<std::int32_t>{0, 5, 10, 5, 20, 5}, {2}}});
  StandardScaler scaler{{"x"}};
  scaler.fit(dataset);
  auto const scaled = scaler.transform(dataset).column("x");
  CHECK(scaled.row_shape() == raytrain::RowShape{2});
  CHECK(scaled.as<float>()[0] == doctest::Approx(-std::sqrt(1.5)));
  CHECK(scaled.as<float>()[1] == 0);
  CHECK(scaled.as<float>()[5] == 0);
}

TEST_CASE("values that are all the same become 0, also where their mean is rounded") {
  for (auto const width : {1U, 9U}) {
    auto const dataset = Dataset::from_columns({{"x", std::vector<double>(width * 10'007, 0.1), {width}}});
    StandardScaler scaler{{"x"}};
    scaler.fit(dataset);
    auto const scaled = scaler.transform(dataset);
    for (auto const value : scaled.column("x").as<double>()) REQUIRE(std::abs(value) < 1e-15);
  }
}

TEST_CASE("values far from 0 that differ by more than rounding are scaled, however many there are") {
  std::vector<double> seconds(200'000);
  for (std::size_t i = 0; i < seconds.size(); ++i) seconds[i] = 1.7e9 + 1e-3 * static_cast<double>(i % 3);
  auto const dataset = Dataset::from_columns({{"t", std::move(seconds)}});
  StandardScaler scaler{{"t"}};
  scaler.fit(dataset);
  auto const scaled = scaler.transform(dataset).column("t");
  CHECK(scaled.as<double>()[0] == doctest::Approx(-std::sqrt(1.5)).epsilon(1e-3));
  CHECK(scaled.as<double>()[2] == doctest::Approx(std::sqrt(1.5)).epsilon(1e-3));
  // By one unit of rounding they are the same.
  auto const rounded = Dataset::from_columns({{"t", std::vector<double>{0.3, 0.1 + 0.2, 0.3}}});
  scaler.fit(rounded);
  auto const same = scaler.transform(rounded);
  for (auto const value : same.column("t").as<double>()) CHECK(std::abs(value) < 1e-15);
}

TEST_CASE("bad columns are refused by fit, and rows of another shape by transform") {
  auto const dataset = Dataset::from_columns({{"x", std::vector<float>{1, 2}}, {"gap", std::vector<double>{gap, gap}}});
  auto const fit = [&](StandardScaler scaler) { return thrown_error([&] { scaler.fit(dataset); }); };
  check_contains(fit({}), "names no column");
  check_contains(fit({{"x", "x"}}), "names 'x' twice");
  check_contains(fit({{"y"}}), "column 'y': is not in the dataset, which has x (float32, scalar), gap");
  check_contains(fit({{"gap"}}), "column 'gap' has no value");
  StandardScaler scaler{{"x"}};
  check_contains(thrown_error([&] { (void)scaler.transform(dataset); }), "has not learnt from any rows yet");
  scaler.fit(dataset);
  auto const wider = Dataset::from_columns({{"x", std::vector<float>{1, 2}, {2}}});
  check_contains(thrown_error([&] { (void)scaler.transform(wider); }), "has 2 values a row, and had 1");
}

}  // namespace
