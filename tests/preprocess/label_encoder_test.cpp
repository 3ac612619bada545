// SPDX-License-Identifier: Apache-2.0
#include <raytrain/preprocess/label_encoder.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/preprocess/fit_rows.hpp>
#include <raytrain/preprocess/preprocessor.hpp>
#include <raytrain/preprocess/preprocessor_json.hpp>

#include "../support/thrown_error.hpp"
#include "encoders.hpp"
#include "fit_workers.hpp"

using raytrain::Column;
using raytrain::Dataset;
using raytrain::FitRows;
using raytrain::LabelEncoder;
using raytrain::testing::check_contains;
using raytrain::testing::Texts;
using raytrain::testing::texts_of;
using raytrain::testing::thrown_error;
using raytrain::testing::values_of;

static_assert(raytrain::InvertiblePreprocessor<LabelEncoder>);

namespace {

auto labelled(Texts const& labels) -> Dataset { return Dataset::from_columns({Column::of_texts("label", labels)}); }

TEST_CASE("classes have scikit-learn's numbers, and numbers that were predicted give classes") {
  auto const dataset = labelled({"ham", "spam", "ham", "eggs"});
  LabelEncoder encoder{"label"};
  encoder.fit(dataset);
  // scikit-learn 1.9.1:
  //   encoder = LabelEncoder().fit(["ham", "spam", "ham", "eggs"])
  //   encoder.transform(["ham", "spam", "ham", "eggs"]), encoder.inverse_transform([2, 0])
  CHECK(values_of<std::int64_t>(encoder.transform(dataset), "label") == std::vector<std::int64_t>{1, 2, 1, 0});
  auto const predicted = Dataset::from_columns({{"label", std::vector<std::int64_t>{2, 0}}});
  CHECK(texts_of(encoder.inverse_transform(predicted).column("label")) == std::vector<std::string>{"spam", "eggs"});
  raytrain::testing::check_comes_back_from_json(encoder, dataset);
}

TEST_CASE("any number of workers learns the same classes") {
  Texts labels;
  for (auto row = 0; row < 5'000; ++row) labels.emplace_back("class " + std::to_string(row / 700));
  auto const learn = [](FitRows const& rows) {
    LabelEncoder encoder{"label"};
    encoder.fit(rows);
    return to_json(encoder);
  };
  auto const alone = learn(labelled(labels));
  for (auto const& of_worker : raytrain::testing::learnt_by_workers(labelled(labels), 3, learn)) {
    CHECK(of_worker == alone);
  }
}

TEST_CASE("rows to predict have no label yet, and stay as they are") {
  LabelEncoder encoder{"label"};
  encoder.fit(labelled({"a", "b"}));
  auto const unlabelled = Dataset::from_columns({{"x", std::vector<float>{1, 2}}});
  CHECK(encoder.transform(unlabelled).digest() == unlabelled.digest());
}

TEST_CASE("a label that is missing or unknown is refused, and so is a fit without labels") {
  LabelEncoder encoder{"label"};
  check_contains(thrown_error([&] { (void)encoder.transform(labelled({"a"})); }),
                 "LabelEncoder::transform: it has not learnt from any rows yet");
  check_contains(thrown_error([&] { encoder.fit(labelled({std::nullopt})); }),
                 "LabelEncoder::fit: column 'label' has no value");
  check_contains(thrown_error([&] { encoder.fit(labelled({"\xff"})); }), "which is not UTF-8");
  check_contains(thrown_error([&] {
                   encoder.fit(Dataset::from_columns({{"x", std::vector<float>{1}}}));
                 }),
                 "column 'label': is not in the dataset");
  check_contains(thrown_error([&] { LabelEncoder{}.fit(labelled({"a"})); }),
                 "invalid_config: LabelEncoder::label_column: names no column");
  encoder.fit(labelled({"a", "b"}));
  check_contains(thrown_error([&] {
                   (void)encoder.transform(labelled({"a", std::nullopt}));
                 }),
                 "LabelEncoder::transform: column 'label' has no label in row 1 of the 2 that it was given, counted "
                 "from 0");
  check_contains(thrown_error([&] {
                   (void)encoder.transform(labelled({"a", "c"}));
                 }),
                 "LabelEncoder::transform: column 'label' has 'c', which was not in the rows");
  check_contains(thrown_error([&] {
                   (void)encoder.inverse_transform(Dataset::from_columns({{"label", std::vector<int>{2}}}));
                 }),
                 "LabelEncoder::inverse_transform: column 'label' has 2, which is the number of no category");
}

TEST_CASE("classes that are numbers come back as numbers") {
  auto const dataset = Dataset::from_columns({{"label", std::vector<std::int32_t>{7, -1, 7}}});
  LabelEncoder encoder{"label"};
  encoder.fit(dataset);
  auto const encoded = encoder.transform(dataset);
  CHECK(values_of<std::int64_t>(encoded, "label") == std::vector<std::int64_t>{1, 0, 1});
  CHECK(values_of<double>(encoder.inverse_transform(encoded), "label") == std::vector<double>{7, -1, 7});
}

}  // namespace
