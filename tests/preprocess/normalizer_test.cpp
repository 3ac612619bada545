// SPDX-License-Identifier: Apache-2.0
#include <raytrain/preprocess/normalizer.hpp>

#include <cstdint>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/preprocess/preprocessor.hpp>

#include "../support/thrown_error.hpp"
#include "preprocessor_checks.hpp"

using raytrain::Dataset;
using raytrain::Norm;
using raytrain::Normalizer;
using raytrain::testing::check_contains;
using raytrain::testing::check_learns_the_same;
using raytrain::testing::check_values;
using raytrain::testing::gap;
using raytrain::testing::thrown_error;

static_assert(raytrain::Preprocessor<Normalizer>);
static_assert(!raytrain::InvertiblePreprocessor<Normalizer>);

namespace {

// x = np.array([[3.0, -4.0], [0, 0], [-0.5, 0.25]])
// for norm in ["l1", "l2", "max"]: sklearn.preprocessing.Normalizer(norm=norm).fit_transform(x)
TEST_CASE("Normalizer gives the figures of scikit-learn, and leaves a row of zeros as it is") {
  auto const dataset =
      Dataset::from_columns({{"x", std::vector<double>{3, 0, -0.5}}, {"y", std::vector<float>{-4, 0, 0.25}}});
  auto const normalized = [&](Norm norm) { return Normalizer{{"x", "y"}, norm}.transform(dataset); };
  auto const l1 = normalized(Norm::l1);
  check_values(l1.column("x"), {0.42857142857142855, 0, -0.66666666666666663});
  check_values(l1.column("y"), {-0.5714285714285714, 0, 0.33333333333333331}, 1e-7);
  auto const l2 = normalized(Norm::l2);
  check_values(l2.column("x"), {0.59999999999999998, 0, -0.89442719099991586});
  check_values(l2.column("y"), {-0.80000000000000004, 0, 0.44721359549995793}, 1e-7);
  auto const max = normalized(Norm::max);
  check_values(max.column("x"), {0.75, 0, -1});
  check_values(max.column("y"), {-1, 0, 0.5}, 1e-7);
  CHECK(max.column("y").type() == raytrain::ElementType::float32);
}

TEST_CASE("all values of a row count, those that are missing do not and stay, and integers become float32") {
  auto const dataset =
      Dataset::from_columns({{"x", std::vector<std::int32_t>{2, -1, 0, 3}, {2}}, {"y", std::vector<double>{2, gap}}});
  auto const normalized = Normalizer{{"x", "y"}}.transform(dataset);
  CHECK(normalized.column("x").type() == raytrain::ElementType::float32);
  check_values(normalized.column("x"), {2.0 / 3, -1.0 / 3, 0, 1}, 1e-7);
  check_values(normalized.column("y"), {2.0 / 3, gap});
}

TEST_CASE("values whose squares float64 has not have a length") {
  auto const dataset = Dataset::from_columns(
      {{"x", std::vector<double>{3e200, 3e-200, 0}}, {"y", std::vector<double>{4e200, -4e-200, 0}}});
  auto const normalized = Normalizer{{"x", "y"}}.transform(dataset);
  check_values(normalized.column("x"), {0.6, 0.6, 0}, 1e-15);
  check_values(normalized.column("y"), {0.8, -0.8, 0}, 1e-15);
}

TEST_CASE("Normalizer is fitted from the start, and comes back from JSON at any number of workers") {
  CHECK(Normalizer{{"x"}}.is_fitted());
  check_learns_the_same(Normalizer{{"x"}, Norm::max}, raytrain::testing::random_rows());
}

TEST_CASE("Normalizer refuses columns that are none, and rows without a norm") {
  auto const dataset = Dataset::from_columns({{"x", std::vector<double>{1, 0, 1.7e308, 1.7e308}, {2}},
                                              {"far", std::vector<double>{1, -std::numeric_limits<double>::infinity()}},
                                              raytrain::Column::of_texts("city", {"Rome", "Oslo"})});
  auto const fit = [&](Normalizer normalizer) { return thrown_error([&] { normalizer.fit(dataset); }); };
  auto const transform = [&](Normalizer const& normalizer) {
    return thrown_error([&] { (void)normalizer.transform(dataset); });
  };
  check_contains(fit({}), "Normalizer::columns: names no column");
  check_contains(fit({{"y"}}), "column 'y': is not in the dataset");
  check_contains(fit({{"city"}}), "Normalizer::fit");
  check_contains(fit({{"city"}}), "holds text");
  check_contains(transform({}), "Normalizer::columns: names no column");
  check_contains(transform({{"city"}}), "holds text");
  check_contains(
      transform({{"x"}}),
      "invalid_data: Normalizer::transform: row 1 of the 2 that it was given, counted from 0, has values that "
      "are too large for a norm");
  check_contains(transform({{"far"}, Norm::l1}), "counted from 0, has values that are too large for a norm");
  check_contains(transform({{"far"}, Norm::max}), "counted from 0, has values that are too large for a norm");
}

}  // namespace
