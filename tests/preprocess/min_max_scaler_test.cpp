// SPDX-License-Identifier: Apache-2.0
#include <raytrain/preprocess/min_max_scaler.hpp>

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
using raytrain::MinMaxScaler;
using raytrain::testing::check_contains;
using raytrain::testing::check_learns_the_same;
using raytrain::testing::check_values;
using raytrain::testing::gap;
using raytrain::testing::thrown_error;

static_assert(raytrain::InvertiblePreprocessor<MinMaxScaler>);

namespace {

// x = np.array([[3.5], [-1.25], [np.nan], [10.0], [0.5], [7.75], [-4.0]])
// sklearn.preprocessing.MinMaxScaler().fit_transform(x); MinMaxScaler(feature_range=(-1, 2)).fit_transform(x)
TEST_CASE("MinMaxScaler gives the figures of scikit-learn, and takes them back") {
  std::vector<double> const values{3.5, -1.25, gap, 10, 0.5, 7.75, -4};
  auto const dataset = Dataset::from_columns({{"x", values}});
  MinMaxScaler scaler{{"x"}};
  scaler.fit(dataset);
  check_values(scaler.transform(dataset).column("x"),
               {0.5357142857142857, 0.19642857142857142, gap, 1, 0.3214285714285714, 0.83928571428571419, 0});
  MinMaxScaler wider{.columns = {"x"}, .feature_range = {-1, 2}};
  wider.fit(dataset);
  auto const scaled = wider.transform(dataset);
  check_values(scaled.column("x"),
               {0.6071428571428571, -0.41071428571428575, gap, 2, -0.035714285714285768, 1.5178571428571428, -1});
  check_values(wider.inverse_transform(scaled).column("x"), values);
}

TEST_CASE("a column of one value becomes the lower end, each place of a row by itself, and integers float32") {
  auto const dataset = Dataset::from_columns({{"x", std::vector<std::int16_t>{7, 0, 7, 10, 7, 5}, {2}}});
  MinMaxScaler scaler{.columns = {"x"}, .feature_range = {3, 5}};
  scaler.fit(dataset);
  auto const scaled = scaler.transform(dataset).column("x");
  CHECK(scaled.type() == raytrain::ElementType::float32);
  check_values(scaled, {3, 3, 3, 5, 3, 4});
}

TEST_CASE("any number of workers learns the same MinMaxScaler, and it comes back from JSON") {
  check_learns_the_same(MinMaxScaler{.columns = {"x"}, .feature_range = {-0.3, 0.7}}, raytrain::testing::random_rows());
}

TEST_CASE("MinMaxScaler refuses ranges that are none, columns without values, and values too far apart") {
  auto const dataset =
      Dataset::from_columns({{"x", std::vector<double>{-1.7e308, 1.7e308}}, {"gap", std::vector<double>{gap, gap}}});
  auto const fit = [&](MinMaxScaler scaler) { return thrown_error([&] { scaler.fit(dataset); }); };
  check_contains(fit({}), "MinMaxScaler::columns: names no column");
  check_contains(fit({{"gap"}}), "MinMaxScaler::fit: column 'gap' has no value");
  check_contains(fit({{"x"}}), "MinMaxScaler::fit: column 'x' has values that lie too far apart");
  check_contains(fit({{"x"}, {1, 1}}),
                 "invalid_config: MinMaxScaler::feature_range: must go from one number to a larger "
                 "one (got 1 to 1)");
  check_contains(fit({{"x"}, {0, gap}}), "(got 0 to nan)");
  check_contains(fit({{"x"}, {-std::numeric_limits<double>::infinity(), 0}}), "(got -inf to 0)");
  check_contains(thrown_error([&] { (void)MinMaxScaler{{"x"}}.transform(dataset); }),
                 "MinMaxScaler::transform: it has not learnt from any rows yet");
  check_contains(thrown_error([&] { (void)MinMaxScaler{{"x"}}.inverse_transform(dataset); }),
                 "MinMaxScaler::inverse_transform: it has not learnt from any rows yet");
}

TEST_CASE("values that are all the same, or nearly, become the lower end, however large they are") {
  auto const dataset = Dataset::from_columns({{"large", std::vector<double>{1e20, 1e20}},
                                              {"largest", std::vector<double>{-1.7e308, -1.7e308}},
                                              {"small", std::vector<double>{0, 5e-324}}});
  MinMaxScaler scaler{{"large", "largest", "small"}, {-1, 1}};
  scaler.fit(dataset);
  auto const scaled = scaler.transform(dataset);
  for (auto const* const name : {"large", "largest", "small"}) {
    CAPTURE(name);
    for (auto const value : scaled.column(name).template as<double>()) CHECK(value == doctest::Approx(-1));
  }
}

}  // namespace
