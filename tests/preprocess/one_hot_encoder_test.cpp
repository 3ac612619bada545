// SPDX-License-Identifier: Apache-2.0
#include <raytrain/preprocess/one_hot_encoder.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/preprocess/handle_unknown.hpp>
#include <raytrain/preprocess/preprocessor.hpp>

#include "../support/thrown_error.hpp"
#include "encoders.hpp"

using raytrain::Column;
using raytrain::Dataset;
using raytrain::OneHotEncoder;
using raytrain::testing::check_contains;
using raytrain::testing::texts_of;
using raytrain::testing::thrown_error;
using raytrain::testing::values_of;

static_assert(raytrain::InvertiblePreprocessor<OneHotEncoder>);

namespace {

using Floats = std::vector<float>;

TEST_CASE("rows of zeros and one 1 are scikit-learn's, and come back as texts and numbers") {
  auto const dataset = Dataset::from_columns({Column::of_texts("city", {"Rome", "Oslo", "Bern"}),
                                              {"x", Floats{1, 2, 3}},
                                              {"n", std::vector<std::int32_t>{10, -3, 10}}});
  OneHotEncoder encoder{{"city", "n"}};
  encoder.fit(dataset);
  auto const encoded = encoder.transform(dataset);
  // scikit-learn 1.9.1, columns 0 to 2 and 3 to 4 of:
  //   OneHotEncoder(sparse_output=False).fit_transform(np.array([["Rome", 10], ["Oslo", -3], ["Bern", 10]], object))
  CHECK(values_of<float>(encoded, "city") == Floats{0, 0, 1, 0, 1, 0, 1, 0, 0});
  CHECK(values_of<float>(encoded, "n") == Floats{0, 1, 1, 0, 0, 1});
  CHECK(encoded.column("city").row_shape() == raytrain::RowShape{3});
  CHECK(encoded.column_names() == std::vector<std::string>{"city", "x", "n"});
  auto const back = encoder.inverse_transform(encoded);
  CHECK(texts_of(back.column("city")) == std::vector<std::string>{"Rome", "Oslo", "Bern"});
  CHECK(values_of<double>(back, "n") == std::vector<double>{10, -3, 10});
  raytrain::testing::check_comes_back_from_json(encoder, dataset);
}

TEST_CASE("a row is all 0 for what is missing, is unknown, or was left out") {
  auto const rows = [](std::vector<std::optional<std::string>> const& texts) {
    return Dataset::from_columns({Column::of_texts("city", texts)});
  };
  OneHotEncoder encoder{{"city"}, 2, raytrain::HandleUnknown::ignore};
  encoder.fit(rows({"b", "b", "a", "a", "c", std::nullopt}));
  auto const encoded = encoder.transform(rows({"b", "c", "d", std::nullopt, "a"}));
  CHECK(values_of<float>(encoded, "city") == Floats{0, 1, 0, 0, 0, 0, 0, 0, 1, 0});
  CHECK(texts_of(encoder.inverse_transform(encoded).column("city")) ==
        std::vector<std::string>{"b", "(none)", "(none)", "(none)", "a"});
}

TEST_CASE("a row with a NaN, of which no number is the largest, comes back as a missing value") {
  OneHotEncoder encoder{{"city"}};
  encoder.fit(Dataset::from_columns({Column::of_texts("city", {"Bern", "Oslo", "Rome"})}));
  auto const none = std::numeric_limits<double>::quiet_NaN();
  auto const told = Dataset::from_columns(
      {{"city", std::vector<double>{none, 0.1, 0.9, none, none, none, 0.1, 0.9, none, 0.1, 0.2, 0.7}, {3}}});
  CHECK(texts_of(encoder.inverse_transform(told).column("city")) ==
        std::vector<std::string>{"(none)", "(none)", "(none)", "Rome"});
}

TEST_CASE("many rows, which lie in huge pages, are as few") {
  constexpr std::size_t width = 7;
  std::vector<std::int32_t> numbers(100'003);
  for (std::size_t row = 0; row < numbers.size(); ++row) numbers[row] = static_cast<std::int32_t>(row * row % width);
  numbers.back() = 6;
  for (std::size_t number = 0; number < width; ++number) numbers[number] = static_cast<std::int32_t>(number);
  auto const dataset = Dataset::from_columns({{"n", numbers}});
  OneHotEncoder encoder{{"n"}};
  encoder.fit(dataset);
  auto const encoded = values_of<float>(encoder.transform(dataset), "n");
  REQUIRE(encoded.size() == numbers.size() * width);
  std::size_t wrong = 0;
  for (std::size_t at = 0; at < encoded.size(); ++at) {
    auto const expected = static_cast<std::size_t>(numbers[at / width]) == at % width ? 1.0F : 0.0F;
    wrong += encoded[at] == expected ? 0 : 1;
  }
  CHECK(wrong == 0);
}

TEST_CASE("the inverse takes what a model says of each category, and refuses rows of another shape") {
  OneHotEncoder encoder{{"city"}};
  encoder.fit(Dataset::from_columns({Column::of_texts("city", {"Bern", "Oslo", "Rome"})}));
  auto const told = Dataset::from_columns({{"city", std::vector<double>{0.2, 0.5, 0.3, -1, -3, -2}, {3}}});
  CHECK(texts_of(encoder.inverse_transform(told).column("city")) == std::vector<std::string>{"Oslo", "Bern"});
  auto const narrow = Dataset::from_columns({{"city", Floats{1, 0, 0, 1}, {2}}});
  check_contains(thrown_error([&] { (void)encoder.inverse_transform(narrow); }),
                 "OneHotEncoder::inverse_transform: column 'city' has 2 values a row, and had 3");
}

}  // namespace
