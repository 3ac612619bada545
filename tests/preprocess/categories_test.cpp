// SPDX-License-Identifier: Apache-2.0
#include <raytrain/preprocess/detail/categories.hpp>

#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/preprocess/count_vectorizer.hpp>
#include <raytrain/preprocess/fit_rows.hpp>
#include <raytrain/preprocess/handle_unknown.hpp>
#include <raytrain/preprocess/label_encoder.hpp>
#include <raytrain/preprocess/multi_hot_encoder.hpp>
#include <raytrain/preprocess/one_hot_encoder.hpp>
#include <raytrain/preprocess/ordinal_encoder.hpp>
#include <raytrain/preprocess/preprocessor_json.hpp>
#include <raytrain/testing/random_seed.hpp>

#include "../support/thrown_error.hpp"
#include "encoders.hpp"
#include "fit_workers.hpp"

using raytrain::Column;
using raytrain::Dataset;
using raytrain::FitRows;
using raytrain::HandleUnknown;
using raytrain::OneHotEncoder;
using raytrain::OrdinalEncoder;
using raytrain::testing::check_contains;
using raytrain::testing::Texts;
using raytrain::testing::thrown_error;

// What all encoders that number categories do.

namespace {

template <class Encoder>
auto fitted(Encoder encoder, FitRows const& rows) -> Encoder {
  encoder.fit(rows);
  return encoder;
}

TEST_CASE_TEMPLATE("any number of workers learns the same categories", Encoder, OneHotEncoder, OrdinalEncoder) {
  std::mt19937_64 random{raytrain::testing::random_seed()};
  Texts cities;
  std::vector<std::int32_t> zones;
  for (auto row = 0; row < 9'000; ++row) {
    // Each worker's part has other cities.
    cities.emplace_back("city " + std::to_string(row / 1'000 * 10 + static_cast<int>(random() % 10)));
    zones.push_back(static_cast<std::int32_t>(random() % 50) - 20);
  }
  auto const dataset = Dataset::from_columns({Column::of_texts("city", cities), {"zone", zones}});
  auto const learn = [](FitRows const& rows) { return to_json(fitted(Encoder{{"city", "zone"}, 40}, rows)); };
  auto const alone = learn(dataset);
  for (std::uint32_t const workers : {2, 5}) {
    for (auto const& of_worker : raytrain::testing::learnt_by_workers(dataset, workers, learn)) {
      CHECK(of_worker == alone);
    }
  }
}

TEST_CASE_TEMPLATE("the most frequent categories are kept, and of equally frequent ones the smaller", Encoder,
                   OneHotEncoder, OrdinalEncoder) {
  auto const dataset = Dataset::from_columns(
      {Column::of_texts("city", {"d", "c", "b", "a", "d", "b", "c"}), {"n", std::vector<double>{5, 4, 3, 2, 1, 1, 9}}});
  auto const learnt = fitted(Encoder{{"city", "n"}, 2}, dataset).categories;
  CHECK(learnt.at("city").texts == std::vector<std::string>{"b", "c"});
  CHECK(learnt.at("city").has_others);
  CHECK(learnt.at("n").numbers == std::vector<double>{1, 2});
  auto const all = fitted(Encoder{{"city"}, 4}, dataset).categories;
  CHECK(all.at("city").texts == std::vector<std::string>{"a", "b", "c", "d"});
  CHECK(!all.at("city").has_others);
}

TEST_CASE_TEMPLATE("a value that fit has not seen is refused unless it is to be ignored, or others were left out",
                   Encoder, OneHotEncoder, OrdinalEncoder) {
  auto const dataset =
      Dataset::from_columns({Column::of_texts("city", {"a", "b", "b"}), {"n", std::vector<int>{1, 2, 3}}});
  auto const other =
      Dataset::from_columns({Column::of_texts("city", {"a", "c", "b"}), {"n", std::vector<double>{1, 2.5, 3}}});
  auto const refused = [&](std::string const& column) {
    return thrown_error([&] { (void)fitted(Encoder{{column}}, dataset).transform(other); });
  };
  auto const attempted = "invalid_data: " + std::string{Encoder::type_name} + "::transform: column ";
  check_contains(refused("city"), attempted + "'city' has 'c', which was not in the rows that were learnt from");
  check_contains(refused("n"), attempted + "'n' has '2.5', which was not in the rows that were learnt from");
  CHECK_NOTHROW((void)fitted(Encoder{{"city", "n"}, {}, HandleUnknown::ignore}, dataset).transform(other));
  CHECK_NOTHROW((void)fitted(Encoder{{"city", "n"}, 1}, dataset).transform(other));
  // "c" is still among the categories of the column, but in none of its rows.
  CHECK_NOTHROW((void)fitted(Encoder{{"city"}}, dataset).transform(other.head(1)));
}

TEST_CASE_TEMPLATE("settings out of their range, and columns without categories are refused by fit", Encoder,
                   OneHotEncoder, OrdinalEncoder) {
  constexpr auto not_a_number = std::numeric_limits<double>::quiet_NaN();
  auto const dataset = Dataset::from_columns({Column::of_texts("city", {"a", "b"}),
                                              Column::of_texts("gap", {std::nullopt, std::nullopt}),
                                              Column::of_texts("bytes", {"M\xfcnchen", "Bern"}),
                                              {"nan", std::vector<double>{not_a_number, not_a_number}},
                                              {"id", std::vector<std::int64_t>{1, std::int64_t{1} << 53}},
                                              {"pair", std::vector<int>{1, 2, 3, 4}, {2}}});
  auto const fit = [&](Encoder encoder) { return thrown_error([&] { encoder.fit(dataset); }); };
  std::string const name{Encoder::type_name};
  check_contains(fit({}), "invalid_config: " + name + "::columns: names no column");
  check_contains(fit({{"city", "city"}}), "names 'city' twice");
  check_contains(fit({{"city"}, 0}), "invalid_config: " + name + "::max_categories: must be at least 1 (got 0)");
  check_contains(fit({{"town"}}), "column 'town': is not in the dataset");
  check_contains(fit({{"gap"}}), "invalid_data: " + name + "::fit: column 'gap' has no value");
  check_contains(fit({{"nan"}}), "column 'nan' has no value");
  check_contains(fit({{"bytes"}}), name + "::fit: column 'bytes' has 'M\xEF\xBF\xBDnchen', which is not UTF-8");
  check_contains(fit({{"id"}}), name + "::fit: column 'id' has whole numbers beyond 2^53");
  check_contains(fit({{"pair"}}), name + "::fit: column 'pair' has rows of shape 2");
}

TEST_CASE_TEMPLATE("nothing is transformed before fit, nor columns that are not as they were", Encoder, OneHotEncoder,
                   OrdinalEncoder) {
  auto const dataset = Dataset::from_columns({Column::of_texts("x", {"a", "b"}), {"n", std::vector<int>{1, 2}}});
  auto const numbers = Dataset::from_columns({{"x", std::vector<int>{1, 2}}});
  std::string const name{Encoder::type_name};
  check_contains(thrown_error([&] { (void)Encoder{{"x"}}.transform(dataset); }), "has not learnt from any rows yet");
  check_contains(thrown_error([&] { (void)Encoder{{"x"}}.inverse_transform(dataset); }),
                 name + "::inverse_transform: it has not learnt");
  auto const encoder = fitted(Encoder{{"x"}}, dataset);
  check_contains(thrown_error([&] { (void)encoder.transform(numbers); }),
                 name + "::transform: column 'x' holds numbers, and held text when it was learnt from");
  check_contains(thrown_error([&] { (void)encoder.inverse_transform(dataset); }), "column 'x' holds text");
}

TEST_CASE("a column of NaN alone is one of missing texts where texts were learnt, and numbers stay refused") {
  constexpr auto not_a_number = std::numeric_limits<double>::quiet_NaN();
  auto const dataset = Dataset::from_columns({Column::of_texts("t", {"a", "b|a"})});
  auto const empty = Dataset::from_columns({{"t", std::vector<float>(2, std::numeric_limits<float>::quiet_NaN())}});
  auto const numbers = Dataset::from_columns({{"t", std::vector<double>{not_a_number, 1}}});
  auto const zeros = std::vector<float>(4, 0);
  auto const one_hot = fitted(OneHotEncoder{{"t"}}, dataset);
  CHECK(raytrain::testing::values_of<float>(one_hot.transform(empty), "t") == zeros);
  CHECK(raytrain::testing::values_of<std::int64_t>(fitted(OrdinalEncoder{{"t"}}, dataset).transform(empty), "t") ==
        std::vector<std::int64_t>{-1, -1});
  CHECK(raytrain::testing::values_of<float>(fitted(raytrain::MultiHotEncoder{{"t"}}, dataset).transform(empty), "t") ==
        zeros);
  CHECK(raytrain::testing::values_of<float>(fitted(raytrain::CountVectorizer{{"t"}}, dataset).transform(empty), "t") ==
        zeros);
  check_contains(thrown_error([&] { (void)fitted(raytrain::LabelEncoder{"t"}, dataset).transform(empty); }),
                 "column 't' has no label in row 0 of the 2 that it was given, counted from 0");
  check_contains(thrown_error([&] { (void)one_hot.transform(numbers); }), "column 't' holds numbers, and held text");
}

TEST_CASE("a slice of a column of more texts than it has rows is encoded as the whole column") {
  Texts texts;
  for (auto i = 0; i < 300; ++i)
    texts.emplace_back(i % 7 == 0 ? std::nullopt : std::optional{std::to_string(i) + " a"});
  auto const dataset = Dataset::from_columns({Column::of_texts("t", texts)});
  auto const numbers = fitted(OrdinalEncoder{{"t"}}, dataset);
  auto const counts = fitted(raytrain::CountVectorizer{{"t"}}, dataset);
  auto const all_numbers = numbers.transform(dataset);
  auto const all_counts = counts.transform(dataset);
  for (std::size_t const row : {0, 1, 50, 285}) {
    CHECK(numbers.transform(dataset.split_at_indices({row, row + 15})[1]).digest() ==
          all_numbers.split_at_indices({row, row + 15})[1].digest());
    CHECK(counts.transform(dataset.split_at_indices({row, row + 15})[1]).digest() ==
          all_counts.split_at_indices({row, row + 15})[1].digest());
  }
}

}  // namespace
