// SPDX-License-Identifier: Apache-2.0
#include <raytrain/preprocess/ordinal_encoder.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/preprocess/handle_unknown.hpp>
#include <raytrain/preprocess/preprocessor.hpp>
#include <raytrain/preprocess/preprocessor_json.hpp>

#include "../support/thrown_error.hpp"
#include "encoders.hpp"

using raytrain::Column;
using raytrain::Dataset;
using raytrain::OrdinalEncoder;
using raytrain::testing::check_contains;
using raytrain::testing::texts_of;
using raytrain::testing::thrown_error;
using raytrain::testing::values_of;

static_assert(raytrain::InvertiblePreprocessor<OrdinalEncoder>);

namespace {

using Numbers = std::vector<std::int64_t>;

TEST_CASE("numbers of categories are scikit-learn's, and come back as texts and numbers") {
  auto const dataset =
      Dataset::from_columns({Column::of_texts("city", {"Rome", "Oslo", "Bern", "Rome", "Oslo", "Rome"}),
                             {"x", std::vector<float>{1, 2, 3, 4, 5, 6}},
                             {"n", std::vector<std::int32_t>{10, -3, 10, 7, 7, 10}}});
  OrdinalEncoder encoder{{"city", "n"}};
  encoder.fit(dataset);
  auto const encoded = encoder.transform(dataset);
  // scikit-learn 1.9.1:
  //   OrdinalEncoder().fit_transform([["Rome"], ["Oslo"], ["Bern"], ["Rome"], ["Oslo"], ["Rome"]]).T
  //   OrdinalEncoder().fit_transform([[10], [-3], [10], [7], [7], [10]]).T
  CHECK(values_of<std::int64_t>(encoded, "city") == Numbers{2, 1, 0, 2, 1, 2});
  CHECK(values_of<std::int64_t>(encoded, "n") == Numbers{2, 0, 2, 1, 1, 2});
  CHECK(encoded.column_names() == std::vector<std::string>{"city", "x", "n"});
  auto const back = encoder.inverse_transform(encoded);
  CHECK(texts_of(back.column("city")) == texts_of(dataset.column("city")));
  CHECK(values_of<double>(back, "n") == std::vector<double>{10, -3, 10, 7, 7, 10});
  raytrain::testing::check_comes_back_from_json(encoder, dataset);
}

TEST_CASE("texts are numbered by what they are, whatever the codes of the dataset they come in") {
  OrdinalEncoder encoder{{"city"}};
  encoder.fit(Dataset::from_columns({Column::of_texts("city", {"Bern", "Oslo", "Rome"})}));
  auto const other = Dataset::from_columns({Column::of_texts("city", {"Rome", "Oslo"})});
  CHECK(values_of<std::int64_t>(encoder.transform(other), "city") == Numbers{2, 1});
}

TEST_CASE("a number of -1 stands for what is missing, is unknown, or was left out") {
  constexpr auto not_a_number = std::numeric_limits<double>::quiet_NaN();
  auto const rows = [](std::vector<std::optional<std::string>> const& texts, std::vector<double> numbers) {
    return Dataset::from_columns({Column::of_texts("city", texts), {"n", std::move(numbers)}});
  };
  OrdinalEncoder encoder{{"city", "n"}, 2, raytrain::HandleUnknown::ignore};
  encoder.fit(rows({"b", "b", "a", "a", "c", std::nullopt}, {1, 1, 0.5, 0.5, 3, not_a_number}));
  auto const encoded = encoder.transform(rows({"b", "c", "d", std::nullopt}, {-0.5, 0.5, 1, not_a_number}));
  CHECK(values_of<std::int64_t>(encoded, "city") == Numbers{1, -1, -1, -1});
  CHECK(values_of<std::int64_t>(encoded, "n") == Numbers{-1, 0, 1, -1});
  auto const back = encoder.inverse_transform(encoded);
  CHECK(texts_of(back.column("city")) == std::vector<std::string>{"b", "(none)", "(none)", "(none)"});
  CHECK(std::isnan(values_of<double>(back, "n")[0]));
  CHECK(values_of<double>(back, "n")[2] == 1);
}

TEST_CASE("another number than -1 can stand for what is unknown, unless it is that of a category") {
  auto const rows = Dataset::from_columns({Column::of_texts("city", {"b", "b", "a", "a", "c", std::nullopt})});
  OrdinalEncoder encoder{.columns = {"city"}, .max_categories = 2, .unknown_value = 2};
  encoder.fit(rows);
  // scikit-learn 1.9.1: OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=2).fit([["a"], ["b"]])
  //   .transform([["b"], ["b"], ["a"], ["a"], ["c"]]).T
  CHECK(values_of<std::int64_t>(encoder.transform(rows), "city") == Numbers{1, 1, 0, 0, 2, 2});
  auto const back = encoder.inverse_transform(encoder.transform(rows));
  CHECK(texts_of(back.column("city")) == std::vector<std::string>{"b", "b", "a", "a", "(none)", "(none)"});
  raytrain::testing::check_comes_back_from_json(encoder, rows);
  encoder.unknown_value = 1;
  check_contains(thrown_error([&] { encoder.fit(rows); }),
                 "invalid_config: OrdinalEncoder::unknown_value: 1 is the number of a category of column 'city', which "
                 "has 2; give it -1, or a number from 2 on");
  auto const edited = raytrain::to_json(encoder);
  check_contains(thrown_error([&] { (void)raytrain::preprocessor_from_json(edited); }),
                 "invalid_data: OrdinalEncoder::unknown_value: 1 is the number of a category");
}

TEST_CASE("many whole numbers have the numbers that few have, and what lies beside a category is none") {
  OrdinalEncoder encoder{.columns = {"n"}, .handle_unknown = raytrain::HandleUnknown::ignore};
  encoder.fit(Dataset::from_columns({{"n", std::vector<double>{-3, 0, 4, 5}}}));
  std::vector<double> numbers{-4,
                              -3,
                              -2.5,
                              -2,
                              1e-17,
                              -0.0,
                              0,
                              4,
                              4.5,
                              5,
                              6,
                              1e300,
                              -1e300,
                              std::numeric_limits<double>::infinity(),
                              std::numeric_limits<double>::quiet_NaN()};
  Numbers const expected{-1, 0, -1, -1, -1, 1, 1, 2, -1, 3, -1, -1, -1, -1, -1};
  auto const dataset = Dataset::from_columns({{"n", numbers}});
  CHECK(values_of<std::int64_t>(encoder.transform(dataset), "n") == expected);
  for (std::size_t row = 0; row < numbers.size(); ++row) {
    auto const alone = encoder.transform(Dataset::from_columns({{"n", std::vector<double>{numbers[row]}}}));
    CHECK(values_of<std::int64_t>(alone, "n") == Numbers{expected[row]});
  }
}

TEST_CASE("what is the number of no category is refused by the inverse") {
  OrdinalEncoder encoder{{"city"}};
  encoder.fit(Dataset::from_columns({Column::of_texts("city", {"Bern", "Oslo", "Rome"})}));
  auto const refused = [&](double value) {
    return thrown_error([&] {
      (void)encoder.inverse_transform(Dataset::from_columns({{"city", std::vector<double>{0, value}}}));
    });
  };
  check_contains(refused(3), "invalid_data: OrdinalEncoder::inverse_transform: column 'city' has 3, which is");
  check_contains(refused(0.5), "column 'city' has 0.5, which is the number of no category");
  check_contains(refused(-2),
                 "column 'city' has -2, which is the number of no category; give it whole numbers from 0 to 2");
}

}  // namespace
