// SPDX-License-Identifier: Apache-2.0
#include <raytrain/data/group_by.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/core/element_type.hpp>
#include <raytrain/core/float16.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/testing/random_seed.hpp>

#include "../support/thrown_error.hpp"
#include "column_values.hpp"

using raytrain::Aggregate;
using raytrain::Column;
using raytrain::Dataset;
using raytrain::group_by;
using raytrain::testing::check_contains;
using raytrain::testing::thrown_error;
using raytrain::testing::values_of;

namespace {

/// What becomes of one group with these values.
template <class T>
auto of_one_group(std::vector<T> values, Aggregate what) -> Dataset {
  auto const rows = values.size();
  return group_by(Dataset::from_columns({{"key", std::vector<int>(rows)}, {"x", std::move(values)}}), "key")
      .aggregate({{what, "x", "result"}});
}

auto number_of(std::vector<double> values, Aggregate what) -> double {
  return values_of<double>(of_one_group(std::move(values), what), "result").front();
}

constexpr auto not_a_number = std::numeric_limits<double>::quiet_NaN();
constexpr auto infinite = std::numeric_limits<double>::infinity();

}  // namespace

TEST_CASE("groups come in the order of their values, with what is asked for in that order") {
  auto const dataset = Dataset::from_columns({{"label", std::vector<std::int16_t>{2, -1, 2, 2, -1}},
                                              {"age", std::vector<float>{30, 10, 40, 80, 14}},
                                              {"visits", std::vector<std::uint8_t>{1, 200, 3, 4, 100}}});
  auto const table = group_by(dataset, "label")
                         .aggregate({{Aggregate::count},
                                     {Aggregate::sum, "visits"},
                                     {Aggregate::mean, "age"},
                                     {Aggregate::min, "age"},
                                     {Aggregate::max, "visits", "most"},
                                     {Aggregate::std, "age"}});
  CHECK(table.column_names() ==
        std::vector<std::string>{"label", "count()", "sum(visits)", "mean(age)", "min(age)", "most", "std(age)"});
  CHECK(values_of<std::int16_t>(table, "label") == std::vector<std::int16_t>{-1, 2});
  CHECK(values_of<std::int64_t>(table, "count()") == std::vector<std::int64_t>{2, 3});
  CHECK(values_of<std::int64_t>(table, "sum(visits)") == std::vector<std::int64_t>{300, 8});
  CHECK(values_of<double>(table, "mean(age)") == std::vector<double>{12, 50});
  CHECK(values_of<float>(table, "min(age)") == std::vector<float>{10, 30});
  CHECK(values_of<std::uint8_t>(table, "most") == std::vector<std::uint8_t>{200, 4});
  CHECK(values_of<double>(table, "std(age)")[0] == doctest::Approx(std::sqrt(8)));
  CHECK(values_of<double>(table, "std(age)")[1] == doctest::Approx(std::sqrt(700)));
}

TEST_CASE("groups of two columns are the pairs of values that there are, the first column's in order, with NaN last") {
  auto const nan = std::numeric_limits<float>::quiet_NaN();
  auto const data = Dataset::from_columns({{"a", std::vector<float>{2, 1, nan, 1, 2, 1}},
                                           {"b", std::vector<std::int32_t>{5, 7, 5, 5, 5, 7}},
                                           {"x", std::vector<float>{1, 2, 4, 8, 16, 32}}});
  auto const table =
      group_by(data, {"a", "b"}).aggregate({{Aggregate::count, "", "rows"}, {Aggregate::sum, "x", "sum"}});
  CHECK(std::ranges::equal(table.column("a").as<float>().first(3), std::vector<float>{1, 1, 2}));
  CHECK(std::isnan(table.column("a").as<float>()[3]));
  CHECK(std::ranges::equal(table.column("b").as<std::int32_t>(), std::vector<std::int32_t>{5, 7, 5, 5}));
  CHECK(std::ranges::equal(table.column("rows").as<std::int64_t>(), std::vector<std::int64_t>{1, 2, 2, 1}));
  CHECK(std::ranges::equal(table.column("sum").as<double>(), std::vector<double>{8, 34, 17, 4}));
}

TEST_CASE("values that are NaN are left out, and rows whose key is one are the last group") {
  auto const dataset = Dataset::from_columns({{"key", std::vector<double>{not_a_number, 1, 1, 2, not_a_number}},
                                              {"x", std::vector<double>{5, not_a_number, 4, not_a_number, 7}}});
  auto const table = group_by(dataset, "key")
                         .aggregate({{Aggregate::count},
                                     {Aggregate::count, "x"},
                                     {Aggregate::sum, "x"},
                                     {Aggregate::mean, "x"},
                                     {Aggregate::min, "x"}});
  CHECK(table.rows() == 3);
  CHECK(std::isnan(values_of<double>(table, "key")[2]));
  CHECK(values_of<std::int64_t>(table, "count()") == std::vector<std::int64_t>{2, 1, 2});
  CHECK(values_of<std::int64_t>(table, "count(x)") == std::vector<std::int64_t>{1, 0, 2});
  CHECK(values_of<double>(table, "sum(x)") == std::vector<double>{4, 0, 12});
  CHECK(values_of<double>(table, "mean(x)")[0] == 4);
  CHECK(std::isnan(values_of<double>(table, "mean(x)")[1]));
  CHECK(values_of<double>(table, "mean(x)")[2] == 6);
  CHECK(std::isnan(values_of<double>(table, "min(x)")[1]));
  CHECK(values_of<double>(table, "min(x)")[2] == 5);
}

TEST_CASE(
    "mean, deviation and sum stand large numbers with small differences, and many small ones beside a large one") {
  CHECK(number_of({1e9 + 4, 1e9 + 7, 1e9 + 13, 1e9 + 16}, Aggregate::mean) == 1e9 + 10);
  CHECK(number_of({1e9 + 4, 1e9 + 7, 1e9 + 13, 1e9 + 16}, Aggregate::std) ==
        doctest::Approx(std::sqrt(30)).epsilon(1e-12));
  CHECK(number_of({1, 1e100, 1, -1e100}, Aggregate::sum) == 2);
  CHECK(number_of({1e308, 1e308}, Aggregate::mean) == 1e308);
  std::vector<double> small(1'000'001, 1e-16);
  small.front() = 1;
  CHECK(number_of(small, Aggregate::sum) == doctest::Approx(1 + 1e-10).epsilon(1e-15));
}

TEST_CASE("a deviation needs two values, and infinities are summed as they are") {
  CHECK(std::isnan(number_of({3}, Aggregate::std)));
  CHECK(number_of({3, 3, 3}, Aggregate::std) == 0);
  CHECK(number_of({1, infinite, 2, infinite}, Aggregate::mean) == infinite);
  CHECK(number_of({1, infinite, 2}, Aggregate::sum) == infinite);
  CHECK(std::isnan(number_of({-infinite, infinite}, Aggregate::mean)));
  CHECK(number_of({-infinite, infinite}, Aggregate::max) == infinite);
  CHECK(number_of({-infinite, infinite}, Aggregate::min) == -infinite);
}

TEST_CASE("integers are summed and compared exactly, and a sum that is too large is refused") {
  auto const large = std::int64_t{1} << 60U;
  CHECK(values_of<std::int64_t>(of_one_group<std::int64_t>({large + 1, 1, large}, Aggregate::sum), "result")[0] ==
        2 * large + 2);
  CHECK(values_of<std::int64_t>(of_one_group<std::int64_t>({large, large + 1}, Aggregate::max), "result")[0] ==
        large + 1);
  CHECK(values_of<std::int64_t>(of_one_group<std::int64_t>({large + 1, large}, Aggregate::min), "result")[0] == large);
  CHECK(
      thrown_error([&] {
        return of_one_group<std::uint64_t>({std::uint64_t{1} << 63U, 1}, Aggregate::sum);
      }) ==
      "invalid_data: group_by, result: a sum is 9.223e+18, which no int64 holds; convert the column to float64 first");
}

TEST_CASE("every type of column is aggregated, and is a key") {
  for (auto type = 0; type < 12; ++type) {
    raytrain::with_element_type(static_cast<raytrain::ElementType>(type), [&]<raytrain::Element T>(T*) {
      auto const value = [](int number) {
        if constexpr (std::is_arithmetic_v<T>) {
          return static_cast<T>(number);
        } else {
          return T{static_cast<float>(number)};
        }
      };
      CAPTURE(type);
      auto const dataset = Dataset::from_columns({{"x", std::vector<T>{value(3), value(1), value(3)}}});
      auto const table =
          group_by(dataset, "x").aggregate({{Aggregate::mean, "x"}, {Aggregate::max, "x"}, {Aggregate::count}});
      CHECK(values_of<double>(table, "mean(x)") == std::vector<double>{1, 3});
      CHECK(static_cast<float>(values_of<T>(table, "x")[0]) == 1);
      CHECK(static_cast<float>(values_of<T>(table, "x")[1]) == 3);
      CHECK(table.column("max(x)").type() == raytrain::element_type<T>);
      CHECK(values_of<std::int64_t>(table, "count()") == std::vector<std::int64_t>{1, 2});
    });
  }
}

TEST_CASE("quantiles lie between values as NumPy's do, and there are none without values") {
  // numpy.quantile([1, 2, 4, 8], q)
  auto const quantile = [](double part) {
    auto const table =
        group_by(
            Dataset::from_columns({{"key", std::vector<int>(5)}, {"x", std::vector<double>{8, 1, not_a_number, 4, 2}}}),
            "key")
            .aggregate({{Aggregate::quantile, "x", "result", part}});
    return values_of<double>(table, "result").front();
  };
  CHECK(quantile(0) == 1);
  CHECK(quantile(0.5) == 3);
  CHECK(quantile(0.9) == doctest::Approx(6.8).epsilon(1e-15));
  CHECK(quantile(1) == 8);
  CHECK(number_of({3, 1, 2}, Aggregate::quantile) == 2);
  CHECK(std::isnan(number_of({not_a_number}, Aggregate::quantile)));
  auto const dataset =
      Dataset::from_columns({{"key", std::vector<int>{1, 0, 1, 1}}, {"x", std::vector<std::int8_t>{-3, 7, 5, 6}}});
  auto const table =
      group_by(dataset, "key").aggregate({{Aggregate::quantile, "x"}, {Aggregate::quantile, "x", "p0", 0}});
  CHECK(values_of<double>(table, "quantile(x)") == std::vector<double>{7, 5});
  CHECK(values_of<double>(table, "p0") == std::vector<double>{7, -3});
  for (auto const part : {-0.1, 1.1, not_a_number}) {
    check_contains(thrown_error([&] {
                     return group_by(dataset, "key").aggregate({{Aggregate::quantile, "x", "", part}});
                   }),
                   "is not from 0 to 1; write one that is, as 0.5 for the median");
  }
}

TEST_CASE("different values are counted once, 0 and -0 as one, and NaN not at all") {
  auto const unique = [](auto values) {
    return values_of<std::int64_t>(of_one_group(std::move(values), Aggregate::unique), "result").front();
  };
  CHECK(unique(std::vector<double>{2, 1, not_a_number, 2, 0.0, -0.0, not_a_number}) == 3);
  CHECK(unique(std::vector<double>{not_a_number}) == 0);
  // Which one double holds.
  CHECK(unique(std::vector<std::int64_t>{9'007'199'254'740'993, 9'007'199'254'740'992, 9'007'199'254'740'993}) == 2);
}

TEST_CASE(
    "the largest absolute value is an int64 of integers, a float64 of others, and refused where that holds none") {
  CHECK(number_of({-3, not_a_number, 2}, Aggregate::abs_max) == 3);
  CHECK(number_of({-infinite, 2}, Aggregate::abs_max) == infinite);
  CHECK(std::isnan(number_of({not_a_number}, Aggregate::abs_max)));
  auto const of_integers = [](auto values) {
    return values_of<std::int64_t>(of_one_group(std::move(values), Aggregate::abs_max), "result").front();
  };
  CHECK(of_integers(std::vector<std::int8_t>{-128, 127}) == 128);
  CHECK(of_integers(std::vector<std::uint8_t>{0, 200}) == 200);
  CHECK(thrown_error([&] { return of_integers(std::vector{std::numeric_limits<std::int64_t>::min()}); }) ==
        "invalid_data: group_by, result: an absolute value is 9.223e+18, which no int64 holds; convert the column to "
        "float64 first");
  check_contains(thrown_error([&] { return of_integers(std::vector{std::numeric_limits<std::uint64_t>::max()}); }),
                 "an absolute value is 1.845e+19");
}

TEST_CASE("of texts there are the first, the last and the number of different ones, and no sum") {
  auto const dataset =
      Dataset::from_columns({{"key", std::vector<int>{1, 2, 1, 1, 1, 3}},
                             Column::of_texts("city", {"Rome", std::nullopt, "Oslo", "Rome", std::nullopt, "Bonn"})});
  auto const table = group_by(dataset, "key")
                         .aggregate({{Aggregate::min, "city"},
                                     {Aggregate::max, "city"},
                                     {Aggregate::unique, "city"},
                                     {Aggregate::count, "city"}});
  auto const texts = [&](std::string const& column) {
    std::vector<std::string> found;
    for (std::size_t row = 0; row < table.rows(); ++row)
      found.emplace_back(table.column(column).text(row).value_or("-"));
    return found;
  };
  CHECK(texts("min(city)") == std::vector<std::string>{"Oslo", "-", "Bonn"});
  CHECK(texts("max(city)") == std::vector<std::string>{"Rome", "-", "Bonn"});
  CHECK(values_of<std::int64_t>(table, "unique(city)") == std::vector<std::int64_t>{2, 0, 1});
  CHECK(values_of<std::int64_t>(table, "count(city)") == std::vector<std::int64_t>{3, 0, 1});
  for (auto const what : {Aggregate::sum, Aggregate::mean, Aggregate::std, Aggregate::quantile, Aggregate::abs_max}) {
    check_contains(thrown_error([&] {
                     return group_by(dataset, "key").aggregate({{what, "city", "it"}});
                   }),
                   "group_by, it: column 'city' holds text");
  }
}

TEST_CASE("random groups have the counts, sums and extremes of a map that is filled row by row") {
  struct Expected {
    std::int64_t count = 0;
    std::int64_t sum = 0;
    std::int32_t min = std::numeric_limits<std::int32_t>::max();
  };
  std::mt19937_64 random{raytrain::testing::random_seed()};
  for (auto round = 0; round < 50; ++round) {
    std::vector<std::int8_t> keys(random() % 200);
    std::vector<std::int32_t> values(keys.size());
    std::map<std::int8_t, Expected> expected;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      keys[i] = static_cast<std::int8_t>(random() % 20 - 10);
      values[i] = static_cast<std::int32_t>(random());
      auto& group = expected[keys[i]];
      ++group.count;
      group.sum += values[i];
      group.min = std::min(group.min, values[i]);
    }
    auto const table = group_by(Dataset::from_columns({{"key", keys}, {"x", values}}), "key")
                           .aggregate({{Aggregate::count}, {Aggregate::sum, "x"}, {Aggregate::min, "x"}});
    REQUIRE(table.rows() == expected.size());
    std::size_t row = 0;
    for (auto const& [key, group] : expected) {
      CHECK(values_of<std::int8_t>(table, "key")[row] == key);
      CHECK(values_of<std::int64_t>(table, "count()")[row] == group.count);
      CHECK(values_of<std::int64_t>(table, "sum(x)")[row] == group.sum);
      CHECK(values_of<std::int32_t>(table, "min(x)")[row] == group.min);
      ++row;
    }
  }
}

TEST_CASE("what cannot be aggregated is refused with the name of what was asked for") {
  auto const dataset = Dataset::from_columns({{"key", std::vector<int>{1, 2}}, {"image", std::vector<float>(4), {2}}});
  CHECK(thrown_error([&] { return group_by(dataset, "key").aggregate({}); }) ==
        "invalid_call: group_by: got no aggregation; write for instance {{Aggregate::count}}");
  CHECK(thrown_error([&] { return group_by(dataset, "key").aggregate({{Aggregate::mean}}); }) ==
        "invalid_call: group_by, mean(): names no column; write {Aggregate::mean, \"COLUMN\"}");
  CHECK(thrown_error([&] {
          return group_by(dataset, "key").aggregate({{Aggregate::count}, {Aggregate::count}});
        }) ==
        "invalid_call: group_by: two columns would be named 'count()'; give one of them another Aggregation::name");
  check_contains(thrown_error([&] {
                   return group_by(dataset, "key").aggregate({{Aggregate::sum, "key", "key"}});
                 }),
                 "two columns would be named 'key'");
  CHECK(thrown_error([&] {
          return group_by(dataset, "key").aggregate({{Aggregate::mean, "image"}});
        }) ==
        "invalid_data: group_by, mean(image): column 'image' has rows of shape 2, and not of one number; take a column "
        "of one number a row");
  check_contains(thrown_error([&] {
                   return group_by(dataset, "key").aggregate({{Aggregate::mean, "age"}});
                 }),
                 "not_found: column 'age'");
  check_contains(thrown_error([&] { return group_by(dataset, "age"); }), "not_found: column 'age'");
  check_contains(thrown_error([&] { return group_by(dataset, "image"); }),
                 "group_by: column 'image' has rows of shape 2");
}

TEST_CASE("a mean is the sum divided by the count") {
  CHECK(number_of({5, 5, 18, 0}, Aggregate::mean) == 7);
  CHECK(number_of({1, 1, 0}, Aggregate::mean) == 2.0 / 3);
  CHECK(number_of({1e308, -1e308}, Aggregate::mean) == 0);
  CHECK(number_of({1e308, 1e308}, Aggregate::mean) == 1e308);
}
