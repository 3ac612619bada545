// SPDX-License-Identifier: Apache-2.0
#include <raytrain/preprocess/hashing_vectorizer.hpp>

#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/preprocess/preprocessor.hpp>

#include "../support/thrown_error.hpp"
#include "encoders.hpp"

using raytrain::Column;
using raytrain::Dataset;
using raytrain::HashingVectorizer;
using raytrain::testing::check_contains;
using raytrain::testing::thrown_error;
using raytrain::testing::values_of;

static_assert(raytrain::Preprocessor<HashingVectorizer> && !raytrain::InvertiblePreprocessor<HashingVectorizer>);

namespace {

TEST_CASE("hashed words are counted at places that are the same everywhere") {
  auto const dataset =
      Dataset::from_columns({Column::of_texts("text", {"the cat sat", "The  cat, the\tmat", std::nullopt, "a cat"}),
                             {"n", std::vector<int>{1, 2, 3, 4}}});
  HashingVectorizer vectorizer{{"text"}, 8};
  vectorizer.fit(dataset);
  auto const hashed = vectorizer.transform(dataset);
  // Python, with the package xxhash: for each text
  //   [sum(xxhash.xxh3_64_intdigest(word) % 8 == place for word in text.split()) for place in range(8)]
  CHECK(values_of<float>(hashed, "text") == std::vector<float>{0, 0, 0, 1, 0, 1, 1, 0, 1, 0, 0, 1, 0, 1, 0, 1,
                                                               0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1});
  CHECK(hashed.column("text").row_shape() == raytrain::RowShape{8});
  CHECK(hashed.column_names() == std::vector<std::string>{"text", "n"});
  raytrain::testing::check_comes_back_from_json(vectorizer, dataset);
}

TEST_CASE("a column of NaN alone, as of a file without any text, has no hashed words") {
  HashingVectorizer const vectorizer{{"text"}, 2};
  auto const empty = Dataset::from_columns({{"text", std::vector<float>(2, std::numeric_limits<float>::quiet_NaN())}});
  CHECK(values_of<float>(vectorizer.transform(empty), "text") == std::vector<float>(4));
}

TEST_CASE("hashed words need texts, and a number of places in its range") {
  auto const dataset = Dataset::from_columns({Column::of_texts("text", {"a"}), {"n", std::vector<int>{1}}});
  auto const fit = [&](HashingVectorizer vectorizer) { return thrown_error([&] { vectorizer.fit(dataset); }); };
  check_contains(fit({}), "invalid_config: HashingVectorizer::columns: names no column");
  check_contains(fit({{"text"}, 0}), "invalid_config: HashingVectorizer::num_features: must be from 1 to 1048576");
  check_contains(fit({{"town"}}), "column 'town': is not in the dataset");
  check_contains(fit({{"n"}}), "invalid_data: HashingVectorizer::fit: column 'n' holds int32 and no text");
  check_contains(thrown_error([&] { (void)HashingVectorizer{{"n"}}.transform(dataset); }),
                 "HashingVectorizer::transform: column 'n'");
}

}  // namespace
