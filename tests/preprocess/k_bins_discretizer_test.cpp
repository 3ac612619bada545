// SPDX-License-Identifier: Apache-2.0
#include <raytrain/preprocess/k_bins_discretizer.hpp>

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/preprocess/preprocessor.hpp>

#include "../support/thrown_error.hpp"
#include "preprocessor_checks.hpp"

using raytrain::BinStrategy;
using raytrain::Dataset;
using raytrain::KBinsDiscretizer;
using raytrain::testing::check_contains;
using raytrain::testing::check_learns_the_same;
using raytrain::testing::check_values;
using raytrain::testing::gap;
using raytrain::testing::thrown_error;

static_assert(raytrain::InvertiblePreprocessor<KBinsDiscretizer>);

namespace {

// x = np.array([0.3, 7.5, 2.25, -1.0, 4.0, 4.0, 12.5, 0.3, 5.75, 3.0, 0.3, 0.3, 0.3]).reshape(-1, 1)
// t = np.array([-5, -1, 0.3, 0.31, 3.5, 4, 12.4, 12.5, 99]).reshape(-1, 1)
// for options in [{"strategy": "uniform"}, {"strategy": "quantile", "quantile_method": "linear"}]:
//   k = sklearn.preprocessing.KBinsDiscretizer(n_bins=4, encode="ordinal", subsample=None, **options).fit(x)
//   k.bin_edges_[0]; k.transform(t); k.inverse_transform(k.transform(t))
TEST_CASE("KBinsDiscretizer gives the bins of scikit-learn, also of values outside, and their centres back") {
  auto const learnt_from = Dataset::from_columns(
      {{"x", std::vector<double>{0.3, 7.5, 2.25, -1.0, gap, 4.0, 4.0, 12.5, 0.3, 5.75, 3.0, 0.3, 0.3, 0.3}}});
  auto const others =
      Dataset::from_columns({{"x", std::vector<double>{-5, -1, 0.3, 0.31, 3.5, gap, 4, 12.4, 12.5, 99}}});
  KBinsDiscretizer uniform{.columns = {"x"}, .n_bins = 4, .strategy = BinStrategy::uniform};
  uniform.fit(learnt_from);
  CHECK(uniform.edges.at("x").at(0) == std::vector<double>{-1, 2.375, 5.75, 9.125, 12.5});
  auto const uniform_bins = uniform.transform(others);
  check_values(uniform_bins.column("x"), {0, 0, 0, 0, 1, gap, 1, 3, 3, 3});
  check_values(uniform.inverse_transform(uniform_bins).column("x"),
               {0.6875, 0.6875, 0.6875, 0.6875, 4.0625, gap, 4.0625, 10.8125, 10.8125, 10.8125});
  KBinsDiscretizer quantile{.columns = {"x"}, .n_bins = 4};
  quantile.fit(learnt_from);
  CHECK(quantile.edges.at("x").at(0) == std::vector<double>{-1, 0.3, 2.25, 4, 12.5});
  auto const quantile_bins = quantile.transform(others);
  check_values(quantile_bins.column("x"), {0, 0, 1, 1, 2, gap, 3, 3, 3, 3});
  check_values(quantile.inverse_transform(quantile_bins).column("x"),
               {-0.34999999999999998, -0.34999999999999998, 1.2749999999999999, 1.2749999999999999, 3.125, gap, 8.25,
                8.25, 8.25, 8.25});
}

TEST_CASE("equal quantiles are one edge, and a column of one value is one bin, which it comes back from") {
  auto const dataset = Dataset::from_columns({{"x", std::vector<std::uint8_t>{0, 9, 0, 9, 0, 9, 1, 9, 7, 9}, {2}}});
  for (auto const strategy : {BinStrategy::uniform, BinStrategy::quantile}) {
    KBinsDiscretizer discretizer{{"x"}, 3, strategy};
    discretizer.fit(dataset);
    CHECK(discretizer.edges.at("x").at(1) == std::vector<double>{9, 9});
    auto const bins = discretizer.transform(dataset);
    CHECK(bins.column("x").type() == raytrain::ElementType::float32);
    check_values(bins.column("x").slice(3, 5),
                 {strategy == BinStrategy::uniform ? 0.0 : 1.0, 0, strategy == BinStrategy::uniform ? 2.0 : 1.0, 0});
    check_values(discretizer.inverse_transform(bins).column("x").slice(0, 1),
                 {strategy == BinStrategy::uniform ? 7.0 / 6 : 1.0 / 3, 9}, 1e-6);
  }
}

TEST_CASE("edges that are given are taken as they are, and rows are not looked at for them") {
  auto const dataset = Dataset::from_columns(
      {{"age", std::vector<double>{-1, 17.9, 18, 64, 200}}, {"gap", std::vector<double>(5, gap)}});
  KBinsDiscretizer discretizer{.columns = {"age", "gap"}, .bins = {{"age", {0, 18, 65, 120}}, {"gap", {0, 1}}}};
  discretizer.fit(dataset);
  auto const bins = discretizer.transform(dataset);
  check_values(bins.column("age"), {0, 0, 1, 1, 2});
  check_values(bins.column("gap"), std::vector<double>(5, gap));
}

TEST_CASE("bins reach over all of float64, and their edges are finite") {
  auto const most = std::numeric_limits<double>::max();
  auto const dataset = Dataset::from_columns({{"x", std::vector<double>{-most, -1, 1, most}}});
  KBinsDiscretizer discretizer{{"x"}, 2, BinStrategy::uniform};
  discretizer.fit(dataset);
  check_values(discretizer.transform(dataset).column("x"), {0, 0, 1, 1});
}

TEST_CASE("any number of workers learns the same KBinsDiscretizer, and it comes back from JSON") {
  auto const rows = raytrain::testing::random_rows();
  check_learns_the_same(KBinsDiscretizer{{"x"}, 7, BinStrategy::uniform}, rows);
  check_learns_the_same(KBinsDiscretizer{{"x"}, 7}, rows);
  check_learns_the_same(KBinsDiscretizer{.columns = {"x"}, .bins = {{"x", {0.1, 0.7}}}}, rows);
}

TEST_CASE("KBinsDiscretizer refuses numbers of bins and edges that are none, and columns without values") {
  auto const dataset = Dataset::from_columns({{"x", std::vector<float>{1, 2}},
                                              {"gap", std::vector<double>{gap, gap}},
                                              raytrain::Column::of_texts("city", {"Rome", "Oslo"})});
  auto const fit = [&](KBinsDiscretizer discretizer) { return thrown_error([&] { discretizer.fit(dataset); }); };
  auto const with_bins = [&](std::vector<double> bins) {
    return fit({.columns = {"x"}, .bins = {{"x", std::move(bins)}}});
  };
  check_contains(fit({}), "KBinsDiscretizer::columns: names no column");
  check_contains(fit({{"gap"}}), "KBinsDiscretizer::fit: column 'gap' has no value");
  check_contains(fit({{"gap"}, 2, BinStrategy::uniform}), "KBinsDiscretizer::fit: column 'gap' has no value");
  check_contains(fit({{"x"}, 1}), "invalid_config: KBinsDiscretizer::n_bins: must be from 2 to 65536 (got 1)");
  check_contains(fit({{"x"}, 65'537}), "(got 65537)");
  check_contains(with_bins({1}),
                 "invalid_config: KBinsDiscretizer::bins: must be two ascending, finite edges or more "
                 "for 'x' (got 1)");
  check_contains(with_bins({1, 1}), "(got 1, 1)");
  check_contains(with_bins({1, gap}), "(got 1, nan)");
  check_contains(with_bins({1, std::numeric_limits<double>::infinity()}), "(got 1, inf)");
  check_contains(fit({.columns = {"x"}, .bins = {{"y", {0, 1}}}}), "has edges of 'y', which is none of the columns");
  check_contains(fit({.columns = {"city"}, .bins = {{"city", {0, 1}}}}), "holds text");
}

TEST_CASE("KBinsDiscretizer refuses to transform before fit, and numbers that are no bin's") {
  auto const dataset = Dataset::from_columns({{"x", std::vector<double>{0, 5, 7}}});
  KBinsDiscretizer discretizer{{"x"}, 2};
  check_contains(thrown_error([&] { (void)discretizer.transform(dataset); }),
                 "KBinsDiscretizer::transform: it has not learnt from any rows yet");
  discretizer.fit(dataset);
  for (auto const wrong : {-1.0, 2.0, 0.5}) {
    auto const bins = Dataset::from_columns({{"x", std::vector<double>{wrong}}});
    check_contains(thrown_error([&] { (void)discretizer.inverse_transform(bins); }),
                   "KBinsDiscretizer::inverse_transform: column 'x' has ");
  }
}

}  // namespace
