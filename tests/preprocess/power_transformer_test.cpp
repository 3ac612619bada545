// SPDX-License-Identifier: Apache-2.0
#include <raytrain/preprocess/power_transformer.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/preprocess/detail/bounded_minimum.hpp>
#include <raytrain/preprocess/preprocessor.hpp>

#include "../support/thrown_error.hpp"
#include "preprocessor_checks.hpp"

using raytrain::Dataset;
using raytrain::PowerMethod;
using raytrain::PowerTransformer;
using raytrain::testing::check_contains;
using raytrain::testing::check_learns_the_same;
using raytrain::testing::check_values;
using raytrain::testing::gap;
using raytrain::testing::thrown_error;

static_assert(raytrain::InvertiblePreprocessor<PowerTransformer>);

namespace {

enum class Sign { positive, mixed, negative };

/// np.exp(np.sin(1.7 * i) + 0.05 * i) of i = np.arange(40); every third below 0; all below 0.
auto skewed_numbers(Sign sign) -> std::vector<double> {
  std::vector<double> values;
  for (auto i = 0; i < 40; ++i) {
    auto const is_negative = sign == Sign::negative || (sign == Sign::mixed && i % 3 == 0);
    values.push_back((is_negative ? -1 : 1) * std::exp(std::sin(1.7 * i) + 0.05 * i));
    if (i == 20) values.push_back(gap);
  }
  return values;
}

struct Expected {
  Sign sign;
  PowerMethod method;
  bool standardize;
  double power;
  std::vector<double> transformed;
};

// i = np.arange(40); pos = np.exp(np.sin(1.7 * i) + 0.05 * i); mixed = np.where(i % 3 == 0, -1, 1) * pos
// for x in [pos, mixed, -pos]:
//   t = sklearn.preprocessing.PowerTransformer(method=method, standardize=standardize).fit(x.reshape(-1, 1))
//   t.lambdas_[0]; t.transform(np.array([[0.5], [2.0], [7.25]]) * (-1 if x is negative else 1))
// Powers agree as far as a minimum can be seen in float64: to about 1e-7.
TEST_CASE("PowerTransformer gives the figures of scikit-learn, and takes them back") {
  using enum PowerMethod;
  for (auto const& expected :
       std::vector<Expected>{{Sign::positive,
                              yeo_johnson,
                              true,
                              -0.3574552214558902,
                              {-1.7507394792735331, -0.36461041231437313, 1.1313406652719613}},
                             {Sign::positive,
                              yeo_johnson,
                              false,
                              -0.3574552214558902,
                              {0.37745151524628223, 0.90856663095127821, 1.481761615891803}},
                             {Sign::positive,
                              box_cox,
                              true,
                              -0.02468270027634302,
                              {-1.8983773939458506, -0.32208793865813629, 1.0947216611100423}},
                             {Sign::positive,
                              box_cox,
                              false,
                              -0.02468270027634302,
                              {-0.69911057964347156, 0.68725141263443013, 1.933349312245481}},
                             {Sign::mixed,
                              yeo_johnson,
                              true,
                              0.9257993360884349,
                              {-0.14996606839901241, 0.13301707567890492, 1.0598233622437783}},
                             {Sign::mixed,
                              yeo_johnson,
                              false,
                              0.9257993360884349,
                              {0.49205418537423534, 1.9066216057326979, 6.5395123110430342}},
                             {Sign::negative,
                              yeo_johnson,
                              true,
                              2.3574552418968024,
                              {1.7507394925544231, 0.36461040725079458, -1.1313406645619386}},
                             {Sign::negative,
                              yeo_johnson,
                              false,
                              2.3574552418968024,
                              {-0.37745151371987951, -0.9085666214156003, -1.4817615879142005}}}) {
    CAPTURE(expected.sign);
    CAPTURE(expected.method);
    CAPTURE(expected.standardize);
    PowerTransformer transformer{.columns = {"x"}, .method = expected.method, .standardize = expected.standardize};
    transformer.fit(Dataset::from_columns({{"x", skewed_numbers(expected.sign)}}));
    CHECK(std::abs(transformer.powers.at("x").at(0) - expected.power) < 2e-7);
    auto const sign = expected.sign == Sign::negative ? -1.0 : 1.0;
    std::vector<double> const others{0.5 * sign, 2 * sign, 7.25 * sign};
    auto const transformed = transformer.transform(Dataset::from_columns({{"x", others}}));
    check_values(transformed.column("x"), expected.transformed, 1e-6);
    check_values(transformer.inverse_transform(transformed).column("x"), others);
  }
}

// scipy.stats.yeojohnson(np.array([-3.0, -0.5, 0, 2]), power) of 0.3, 0 and 2;
// scipy.stats.boxcox(np.array([0.5, 2.0]), power) of 0.3 and 0
TEST_CASE("a power that is given is taken, 0 and 2 too, and missing values stay") {
  std::vector<double> const values{-3, -0.5, gap, 0, 2};
  auto const dataset = Dataset::from_columns({{"x", values}});
  auto const given = [&](PowerMethod method, double power, Dataset const& of) {
    PowerTransformer transformer{{"x"}, method, power, false};
    transformer.fit(of);
    auto const transformed = transformer.transform(of);
    check_values(transformer.inverse_transform(transformed).column("x"),
                 {of.column("x").as<double>().begin(), of.column("x").as<double>().end()});
    return transformed.column("x");
  };
  using enum PowerMethod;
  check_values(given(yeo_johnson, 0.3, dataset), {-5.6212136977547962, -0.583706976420589, gap, 0, 1.3012972343863642});
  check_values(given(yeo_johnson, 0, dataset), {-7.4999999999999991, -0.625, gap, 0, 1.0986122886681096});
  check_values(given(yeo_johnson, 2, dataset), {-1.3862943611198906, -0.40546510810816438, gap, 0, 3.9999999999999987});
  auto const above_zero = Dataset::from_columns({{"x", std::vector<double>{0.5, gap, 2}}});
  check_values(given(box_cox, 0.3, above_zero), {-0.62582534547921498, gap, 0.77048137781638759});
  check_values(given(box_cox, 0, above_zero), {-0.69314718055994529, gap, 0.69314718055994529});
}

TEST_CASE("a power is found of numbers in any unit, and those of one value are 0 afterwards") {
  auto const power_of = [](double unit) {
    auto values = skewed_numbers(Sign::positive);
    for (auto& value : values) value *= unit;
    PowerTransformer transformer{{"x"}, PowerMethod::box_cox};
    transformer.fit(Dataset::from_columns({{"x", values}}));
    return transformer.powers.at("x").at(0);
  };
  for (auto const unit : {1e-200, 1e-12, 1e9, 1e200}) {
    CAPTURE(unit);
    CHECK(std::abs(power_of(unit) - power_of(1)) < 2e-7);
  }
  auto const constant = Dataset::from_columns({{"x", std::vector<std::int32_t>{7, 1, 7, 2, 7, 9}, {2}}});
  for (auto const method : {PowerMethod::yeo_johnson, PowerMethod::box_cox}) {
    PowerTransformer transformer{{"x"}, method};
    transformer.fit(constant);
    CHECK(transformer.powers.at("x").at(0) == 1);
    auto const transformed = transformer.transform(constant).column("x");
    CHECK(transformed.type() == raytrain::ElementType::float32);
    for (auto const at : {0U, 2U, 4U}) CHECK(transformed.as<float>()[at] == 0);
  }
}

TEST_CASE("any number of workers learns the same PowerTransformer, and it comes back from JSON") {
  auto const rows = raytrain::testing::random_rows();
  check_learns_the_same(PowerTransformer{{"x"}}, rows);
  check_learns_the_same(PowerTransformer{{"x"}, PowerMethod::box_cox, 0.3}, rows);
}

TEST_CASE("a minimum is found that lies at an end, or beside where there is none to look at") {
  auto const minimum_of = [](double low, double high, auto const& function) {
    raytrain::detail::BoundedMinimum search{low, high};
    while (!search.is_done()) search.take(function(search.point()));
    return search.best();
  };
  CHECK(std::abs(minimum_of(-1000, 5, [](double x) { return (x - 2) * (x - 2); }) - 2) < 1e-7);
  CHECK(std::abs(minimum_of(3, 5, [](double x) { return x; }) - 3) < 1e-6);
  auto const partly = [](double x) { return x < 0 ? std::numeric_limits<double>::infinity() : std::cosh(x - 1); };
  CHECK(std::abs(minimum_of(-50, 50, partly) - 1) < 1e-6);
}

TEST_CASE(
    "a power that makes numbers beyond float64 is refused by its name, and one whose numbers have no squares where "
    "they are needed") {
  auto const dataset = Dataset::from_columns({{"x", std::vector<double>{-100, 1, 100}}});
  auto const fit = [&](PowerMethod method, double power, bool standardize) {
    return thrown_error([&] {
      PowerTransformer{{"x"}, method, power, standardize}.fit(
          method == PowerMethod::box_cox ? dataset.split_at(1).second : dataset);
    });
  };
  using enum PowerMethod;
  for (auto const standardize : {true, false}) {
    CAPTURE(standardize);
    check_contains(fit(yeo_johnson, 200, standardize),
                   "invalid_data: PowerTransformer::fit: power 200 makes of column 'x' numbers beyond float64; "
                   "give one nearer to 1, or leave it out");
    check_contains(fit(yeo_johnson, -200, standardize), "power -200 makes of column 'x' numbers beyond float64");
    check_contains(fit(box_cox, 200, standardize), "power 200 makes of column 'x' numbers beyond float64");
  }
  check_contains(
      fit(yeo_johnson, 100, true),
      "PowerTransformer::fit, after power 100: column 'x' has finite values whose sum or squares are beyond");
  PowerTransformer transformer{{"x"}, yeo_johnson, 100, false};
  transformer.fit(dataset);
  // (101^100 - 1) / 100
  check_values(transformer.transform(dataset.split_at(2).second).column("x"), {2.7048138294215285e198});
}

TEST_CASE("PowerTransformer refuses to make numbers that the column's type has not, and keeps what is infinite") {
  auto const numbers = Dataset::from_columns({{"x", std::vector<float>{1e3F, 1e4F}}});
  PowerTransformer raised{.columns = {"x"}, .power = 12, .standardize = false};
  raised.fit(numbers);
  check_contains(thrown_error([&] { (void)raised.transform(numbers); }),
                 "invalid_data: PowerTransformer::transform: column 'x' has the value 10000, of which power 12 makes "
                 "8.34");
  check_contains(thrown_error([&] { (void)raised.transform(numbers); }),
                 "beyond float32; set standardize, or make the column float64");
  PowerTransformer learnt{.columns = {"x"}, .standardize = false};
  learnt.fit(Dataset::from_columns({{"x", std::vector<float>{1e6F, 1.05e6F, 1.09e6F, 1.1e6F, 1.1e6F}}}));
  CHECK(learnt.powers.at("x").at(0) > 7);
  check_contains(thrown_error([&] {
                   (void)learnt.transform(numbers.with_column({"x", std::vector<float>{1.1e6F, 1}}));
                 }),
                 "has the value 1100000, of which power");
  auto const wide = Dataset::from_columns({{"x", std::vector<double>{1e3, 1e4, HUGE_VAL}}});
  auto const made = raised.transform(wide);
  CHECK(made.column("x").as<double>()[1] > 1e46);
  CHECK(made.column("x").as<double>()[2] == HUGE_VAL);
}

TEST_CASE("PowerTransformer refuses powers that are none, columns without values, and what box_cox cannot take") {
  auto const dataset =
      Dataset::from_columns({{"x", std::vector<double>{0, 2}}, {"gap", std::vector<double>{gap, gap}}});
  auto const fit = [&](PowerTransformer transformer) { return thrown_error([&] { transformer.fit(dataset); }); };
  check_contains(fit({}), "PowerTransformer::columns: names no column");
  check_contains(fit({{"gap"}}), "PowerTransformer::fit: column 'gap' has no value");
  check_contains(fit({.columns = {"x"}, .power = gap}),
                 "invalid_config: PowerTransformer::power: must be finite (got nan)");
  check_contains(fit({{"x"}, PowerMethod::box_cox}),
                 "invalid_data: PowerTransformer::fit: column 'x' has the value 0, and box_cox takes those above 0");
  PowerTransformer transformer{{"x"}, PowerMethod::box_cox};
  check_contains(thrown_error([&] { (void)transformer.transform(dataset); }),
                 "PowerTransformer::transform: it has not learnt from any rows yet");
  transformer.fit(Dataset::from_columns({{"x", std::vector<double>{1, 2}}}));
  check_contains(thrown_error([&] { (void)transformer.transform(dataset); }),
                 "PowerTransformer::transform: column 'x' has the value 0, and box_cox takes those above 0");
}

}  // namespace
