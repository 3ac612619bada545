// SPDX-License-Identifier: Apache-2.0
#include <raytrain/preprocess/robust_scaler.hpp>

#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/preprocess/preprocessor.hpp>

#include "../support/thrown_error.hpp"
#include "preprocessor_checks.hpp"

using raytrain::Dataset;
using raytrain::RobustScaler;
using raytrain::testing::check_contains;
using raytrain::testing::check_learns_the_same;
using raytrain::testing::check_values;
using raytrain::testing::gap;
using raytrain::testing::thrown_error;

static_assert(raytrain::InvertiblePreprocessor<RobustScaler>);

namespace {

// x = np.array([[3.5], [-1.25], [np.nan], [10.0], [0.5], [7.75], [-4.0]])
// sklearn.preprocessing.RobustScaler().fit_transform(x); RobustScaler(quantile_range=(10, 80)).fit_transform(x)
TEST_CASE("RobustScaler gives the figures of scikit-learn, and takes them back") {
  std::vector<double> const values{3.5, -1.25, gap, 10, 0.5, 7.75, -4};
  auto const dataset = Dataset::from_columns({{"x", values}});
  RobustScaler scaler{{"x"}};
  scaler.fit(dataset);
  check_values(scaler.transform(dataset).column("x"),
               {0.20000000000000001, -0.43333333333333335, gap, 1.0666666666666667, -0.20000000000000001,
                0.76666666666666672, -0.80000000000000004});
  RobustScaler wider{.columns = {"x"}, .quantile_range = {0.1, 0.8}};
  wider.fit(dataset);
  auto const scaled = wider.transform(dataset);
  check_values(scaled.column("x"), {0.14457831325301204, -0.31325301204819278, gap, 0.77108433734939763,
                                    -0.14457831325301204, 0.55421686746987953, -0.57831325301204817});
  check_values(wider.inverse_transform(scaled).column("x"), values);
}

TEST_CASE("a column of one value is shifted to 0, each place of a row by itself, and integers become float32") {
  auto const dataset = Dataset::from_columns({{"x", std::vector<std::int32_t>{7, 0, 7, 10, 7, 5}, {2}}});
  RobustScaler scaler{{"x"}};
  scaler.fit(dataset);
  auto const scaled = scaler.transform(dataset).column("x");
  CHECK(scaled.type() == raytrain::ElementType::float32);
  check_values(scaled, {0, -1, 0, 1, 0, 0});
}

TEST_CASE("any number of workers learns the same RobustScaler, and it comes back from JSON") {
  check_learns_the_same(RobustScaler{{"x"}, {0.05, 0.6}}, raytrain::testing::random_rows());
}

TEST_CASE("RobustScaler refuses quantiles that are none, and columns without values") {
  auto const dataset = Dataset::from_columns({{"x", std::vector<float>{1, 2}}, {"gap", std::vector<double>{gap, gap}}});
  auto const fit = [&](RobustScaler scaler) { return thrown_error([&] { scaler.fit(dataset); }); };
  check_contains(fit({}), "RobustScaler::columns: names no column");
  check_contains(fit({{"gap"}}), "RobustScaler::fit: column 'gap' has no value");
  check_contains(fit({{"x"}, {25, 75}}),
                 "invalid_config: RobustScaler::quantile_range: must go from one number to a "
                 "larger one, both from 0 to 1 (got 25 to 75)");
  check_contains(fit({{"x"}, {0.5, 0.5}}), "(got 0.5 to 0.5)");
  check_contains(fit({{"x"}, {-0.1, 0.5}}), "(got -0.1 to 0.5)");
  check_contains(fit({{"x"}, {0, gap}}), "(got 0 to nan)");
  check_contains(thrown_error([&] { (void)RobustScaler{{"x"}}.transform(dataset); }),
                 "RobustScaler::transform: it has not learnt from any rows yet");
}

}  // namespace
