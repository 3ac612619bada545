// SPDX-License-Identifier: Apache-2.0
#include <raytrain/preprocess/max_abs_scaler.hpp>

#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/preprocess/preprocessor.hpp>

#include "../support/thrown_error.hpp"
#include "preprocessor_checks.hpp"

using raytrain::Dataset;
using raytrain::MaxAbsScaler;
using raytrain::testing::check_contains;
using raytrain::testing::check_learns_the_same;
using raytrain::testing::check_values;
using raytrain::testing::gap;
using raytrain::testing::thrown_error;

static_assert(raytrain::InvertiblePreprocessor<MaxAbsScaler>);

namespace {

// x = np.array([[3.5], [-1.25], [np.nan], [10.0], [0.5], [7.75], [-4.0]])
// sklearn.preprocessing.MaxAbsScaler().fit_transform(x)
TEST_CASE("MaxAbsScaler gives the figures of scikit-learn, and takes them back") {
  std::vector<double> const values{3.5, -1.25, gap, 10, 0.5, 7.75, -4};
  auto const dataset = Dataset::from_columns({{"x", values}});
  MaxAbsScaler scaler{{"x"}};
  scaler.fit(dataset);
  auto const scaled = scaler.transform(dataset);
  check_values(scaled.column("x"),
               {0.34999999999999998, -0.125, gap, 1, 0.050000000000000003, 0.77500000000000002, -0.40000000000000002});
  check_values(scaler.inverse_transform(scaled).column("x"), values);
}

TEST_CASE("the largest absolute value may be below 0, a column of zeros stays, and integers become float32") {
  auto const dataset = Dataset::from_columns({{"x", std::vector<std::int8_t>{-8, 0, 4, 0}, {2}}});
  MaxAbsScaler scaler{{"x"}};
  scaler.fit(dataset);
  auto const scaled = scaler.transform(dataset).column("x");
  CHECK(scaled.type() == raytrain::ElementType::float32);
  check_values(scaled, {-1, 0, 0.5, 0});
}

TEST_CASE("any number of workers learns the same MaxAbsScaler, and it comes back from JSON") {
  check_learns_the_same(MaxAbsScaler{{"x"}}, raytrain::testing::random_rows());
}

TEST_CASE("MaxAbsScaler refuses columns without values, and to transform before fit") {
  auto const dataset = Dataset::from_columns({{"gap", std::vector<double>{gap, gap}}});
  auto const fit = [&](MaxAbsScaler scaler) { return thrown_error([&] { scaler.fit(dataset); }); };
  check_contains(fit({}), "MaxAbsScaler::columns: names no column");
  check_contains(fit({{"gap"}}), "MaxAbsScaler::fit: column 'gap' has no value");
  check_contains(fit({{"x"}}), "column 'x': is not in the dataset");
  check_contains(thrown_error([&] { (void)MaxAbsScaler{{"gap"}}.transform(dataset); }),
                 "MaxAbsScaler::transform: it has not learnt from any rows yet");
}

}  // namespace
