// SPDX-License-Identifier: Apache-2.0
#include <raytrain/preprocess/simple_imputer.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/preprocess/any_preprocessor.hpp>
#include <raytrain/preprocess/preprocessor.hpp>

#include "../support/thrown_error.hpp"
#include "preprocessor_checks.hpp"

using raytrain::Column;
using raytrain::Dataset;
using raytrain::ImputeStrategy;
using raytrain::SimpleImputer;
using raytrain::testing::check_contains;
using raytrain::testing::check_learns_the_same;
using raytrain::testing::check_values;
using raytrain::testing::gap;
using raytrain::testing::thrown_error;

static_assert(raytrain::Preprocessor<SimpleImputer>);
static_assert(!raytrain::InvertiblePreprocessor<SimpleImputer>);

namespace {

auto fitted(SimpleImputer imputer, Dataset const& dataset) -> SimpleImputer {
  imputer.fit(dataset);
  return imputer;
}

auto texts_of(Column const& column) -> std::vector<std::optional<std::string>> {
  std::vector<std::optional<std::string>> texts;
  for (std::size_t row = 0; row < column.rows(); ++row) texts.emplace_back(column.text(row));
  return texts;
}

// x = np.array([[0.1, 7], [np.nan, 2], [0.7, 2], [0.7, np.nan], [0.4, 9], [0.1, 7.5]])
// for s in ["mean", "median", "most_frequent"]: sklearn.impute.SimpleImputer(strategy=s).fit(x).statistics_
TEST_CASE("SimpleImputer fills each place of a row with the figures of scikit-learn, of equal counts the smallest") {
  auto const dataset =
      Dataset::from_columns({{"x", std::vector<double>{0.1, 7, gap, 2, 0.7, 2, 0.7, gap, 0.4, 9, 0.1, 7.5}, {2}}});
  auto const filled = [&](ImputeStrategy strategy) {
    auto const imputer = fitted({.columns = {"x"}, .strategy = strategy}, dataset);
    return imputer.transform(dataset).column("x");
  };
  check_values(filled(ImputeStrategy::mean), {0.1, 7, 0.40000000000000002, 2, 0.7, 2, 0.7, 5.5, 0.4, 9, 0.1, 7.5});
  check_values(filled(ImputeStrategy::median), {0.1, 7, 0.40000000000000002, 2, 0.7, 2, 0.7, 7, 0.4, 9, 0.1, 7.5});
  check_values(filled(ImputeStrategy::most_frequent),
               {0.1, 7, 0.10000000000000001, 2, 0.7, 2, 0.7, 2, 0.4, 9, 0.1, 7.5});
}

TEST_CASE("a constant fills also a column without a value, and texts by a text") {
  auto const dataset = Dataset::from_columns({{"x", std::vector<float>(2, std::numeric_limits<float>::quiet_NaN())},
                                              Column::of_texts("city", {std::nullopt, "Rome"})});
  auto const imputer =
      fitted({.columns = {"x", "city"}, .strategy = ImputeStrategy::constant, .fill_value = -1, .fill_text = "Nowhere"},
             dataset);
  auto const filled = imputer.transform(dataset);
  CHECK(filled.column("x").type() == raytrain::ElementType::float32);
  check_values(filled.column("x"), {-1, -1});
  CHECK(texts_of(filled.column("city")) == std::vector<std::optional<std::string>>{"Nowhere", "Rome"});
}

TEST_CASE("texts are filled by the one that comes most often, of equal counts by the first in order") {
  auto const dataset =
      Dataset::from_columns({Column::of_texts("city", {"Rome", std::nullopt, "Oslo", "Paris", "Oslo", "Rome"})});
  auto const imputer = fitted({.columns = {"city"}, .strategy = ImputeStrategy::most_frequent}, dataset);
  CHECK(texts_of(imputer.transform(dataset).column("city"))[1] == "Oslo");
  auto const codes = imputer.transform(dataset).column("city");
  CHECK(codes.categories().size() == 3);
  auto const others = Dataset::from_columns({Column::of_texts("city", {std::nullopt, "Bern", "Rome"})});
  auto const filled = imputer.transform(others).column("city");
  CHECK(texts_of(filled) == std::vector<std::optional<std::string>>{"Oslo", "Bern", "Rome"});
  CHECK(std::vector<std::string>{filled.categories().begin(), filled.categories().end()} ==
        std::vector<std::string>{"Bern", "Oslo", "Rome"});
}

TEST_CASE("integers pass unchanged, and what was learnt from them fills floats") {
  auto const integers = Dataset::from_columns({{"x", std::vector<std::int64_t>{1, 1, (std::int64_t{1} << 53) + 1}}});
  auto const imputer = fitted({.columns = {"x"}, .strategy = ImputeStrategy::median}, integers);
  auto const passed = imputer.transform(integers).column("x");
  CHECK(passed.as<std::int64_t>()[2] == (std::int64_t{1} << 53) + 1);
  check_values(imputer.transform(Dataset::from_columns({{"x", std::vector<double>{gap, 3}}})).column("x"), {1, 3});
}

TEST_CASE("any number of workers learns the same SimpleImputer, and it comes back from JSON") {
  auto const rows = raytrain::testing::random_rows();
  std::vector<std::optional<std::string>> cities;
  for (std::size_t row = 0; row < rows.rows(); ++row) cities.emplace_back(row % 3 == 0 ? "Rome" : "Oslo");
  auto const dataset = rows.add_column(Column::of_texts("city", cities));
  check_learns_the_same(SimpleImputer{{"x"}}, dataset);
  check_learns_the_same(SimpleImputer{{"x"}, ImputeStrategy::median}, dataset);
  check_learns_the_same(SimpleImputer{{"x", "city"}, ImputeStrategy::most_frequent}, dataset);
  check_learns_the_same(SimpleImputer{{"x", "city"}, ImputeStrategy::constant, 0.1, "\"none\""}, dataset);
}

TEST_CASE("SimpleImputer refuses what a strategy cannot fill, and constants that are missing or that none takes") {
  auto const dataset = Dataset::from_columns({{"gap", std::vector<double>{gap, gap}},
                                              {"half", std::vector<double>{1, gap, 2, gap}, {2}},
                                              Column::of_texts("city", {"Rome", "Oslo"}),
                                              Column::of_texts("none", {std::nullopt, std::nullopt})}  //
  );
  auto const fit = [&](SimpleImputer imputer) { return thrown_error([&] { imputer.fit(dataset); }); };
  using enum ImputeStrategy;
  check_contains(fit({}), "SimpleImputer::columns: names no column");
  for (auto const strategy : {mean, median, most_frequent}) {
    check_contains(fit({{"gap"}, strategy}), "SimpleImputer::fit: column 'gap' has no value");
    check_contains(fit({{"half"}, strategy}), "SimpleImputer::fit: column 'half' has no value");
  }
  check_contains(fit({{"none"}, most_frequent}), "SimpleImputer::fit: column 'none' has no value");
  check_contains(fit({{"city"}, mean}),
                 "invalid_config: SimpleImputer::strategy: is mean, and column 'city' holds text");
  check_contains(fit({{"city"}, median}), "is median, and column 'city' holds text");
  check_contains(fit({{"city"}, constant, 1}),
                 "invalid_config: SimpleImputer::fill_text: is not given, and column 'city' holds text");
  check_contains(fit({{"gap"}, constant, {}, "x"}),
                 "invalid_config: SimpleImputer::fill_value: is not given, and column 'gap' holds numbers");
  check_contains(fit({{"gap"}, mean, 1}), "SimpleImputer::fill_value: is given, and the strategy is mean");
  check_contains(fit({{"gap"}, mean, {}, "x"}), "SimpleImputer::fill_text: is given, and the strategy is mean");
  check_contains(fit({{"gap"}, constant, gap}), "SimpleImputer::fill_value: must be finite (got nan)");
  check_contains(fit({{"x"}}), "column 'x': is not in the dataset");
}

TEST_CASE("a text that fills is found among categories that are in no order") {
  auto const codes = std::make_shared<std::vector<std::int32_t>>(std::vector<std::int32_t>{1, -1, 0});
  Column const city{
      raytrain::ColumnFormat{"city",
                             raytrain::ElementType::int32,
                             {},
                             std::make_shared<std::vector<std::string>>(std::vector<std::string>{"b", "a"})},
      {codes, reinterpret_cast<std::byte const*>(codes->data())},
      3};
  SimpleImputer imputer{{"city"}, ImputeStrategy::constant, {}, "a"};
  auto const dataset = Dataset::from_columns({city});
  imputer.fit(dataset);
  auto const filled = imputer.transform(dataset).column("city");
  CHECK(filled.categories().size() == 2);
  CHECK(filled.text(0) == "a");
  CHECK(filled.text(1) == "a");
  CHECK(filled.text(2) == "b");
}

TEST_CASE("SimpleImputer refuses to transform before fit, and columns of another kind or shape") {
  auto const numbers = Dataset::from_columns({{"x", std::vector<std::int32_t>{1, 2}}});
  auto const texts = Dataset::from_columns({Column::of_texts("x", {"Rome"})});
  auto const transform = [](SimpleImputer const& imputer, Dataset const& dataset) {
    return thrown_error([&] { (void)imputer.transform(dataset); });
  };
  check_contains(transform({{"x"}}, numbers), "SimpleImputer::transform: it has not learnt from any rows yet");
  check_contains(transform(fitted({{"x"}}, numbers), texts),
                 "SimpleImputer::transform: column 'x' holds text, and held numbers when it was learnt from");
  check_contains(transform(fitted({{"x"}, ImputeStrategy::most_frequent}, texts), numbers),
                 "column 'x' holds numbers, and held text when it was learnt from");
  auto const wider = Dataset::from_columns({{"x", std::vector<std::int32_t>{1, 2}, {2}}});
  check_contains(transform(fitted({{"x"}}, numbers), wider), "column 'x' has 2 values a row, and had 1");
}

TEST_CASE("SimpleImputer fills a column of NaN alone with the text that it has learnt") {
  auto const dataset = Dataset::from_columns({Column::of_texts("city", {"Rome", "Oslo", "Rome"})});
  auto const imputer = fitted({.columns = {"city"}, .strategy = ImputeStrategy::most_frequent}, dataset);
  auto const empty = Dataset::from_columns({{"city", std::vector<double>{gap, gap}}});
  CHECK(texts_of(imputer.transform(empty).column("city")) == std::vector<std::optional<std::string>>{"Rome", "Rome"});
}

TEST_CASE("parts of a column that SimpleImputer fills share their categories, whether the fill is new or not") {
  auto const dataset = Dataset::from_columns({Column::of_texts("city", {"Rome", "Bern", std::nullopt, "Oslo"})});
  auto const categories_of = [&](std::string const& fill, std::size_t row) {
    SimpleImputer const imputer =
        fitted({.columns = {"city"}, .strategy = ImputeStrategy::constant, .fill_text = fill}, dataset);
    return imputer.transform(dataset.split_at_indices({row, row + 1})[1]).column("city").format().categories;
  };
  CHECK(categories_of("Bern", 0) == dataset.column("city").format().categories);
  CHECK(categories_of("Bern", 2) == dataset.column("city").format().categories);
  auto const first = categories_of("Lima", 0);
  CHECK(*first == std::vector<std::string>{"Bern", "Lima", "Oslo", "Rome"});
  CHECK(categories_of("Lima", 2) == first);
  CHECK(*categories_of("Nice", 2) == std::vector<std::string>{"Bern", "Nice", "Oslo", "Rome"});
  CHECK(categories_of("Lima", 3) == first);
}

}  // namespace
