// SPDX-License-Identifier: Apache-2.0
#include <raytrain/preprocess/count_vectorizer.hpp>

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
using raytrain::CountVectorizer;
using raytrain::Dataset;
using raytrain::FitRows;
using raytrain::testing::check_contains;
using raytrain::testing::Texts;
using raytrain::testing::thrown_error;
using raytrain::testing::values_of;

static_assert(raytrain::Preprocessor<CountVectorizer> && !raytrain::InvertiblePreprocessor<CountVectorizer>);

namespace {

auto reviews(Texts const& texts) -> Dataset { return Dataset::from_columns({Column::of_texts("text", texts)}); }

TEST_CASE("words are counted as scikit-learn counts what lies between blanks") {
  auto const dataset = reviews({"the cat sat", "The  cat, the\tmat", "a cat"});
  CountVectorizer vectorizer{{"text"}};
  vectorizer.fit(dataset);
  // scikit-learn 1.9.1:
  //   vectorizer = CountVectorizer(lowercase=False, token_pattern=r"[^ \t\n\v\f\r]+")
  //   vectorizer.fit_transform(["the cat sat", "The  cat, the\tmat", "a cat"]).toarray()
  //   vectorizer.get_feature_names_out()
  CHECK(vectorizer.vocabularies.at("text").texts ==
        std::vector<std::string>{"The", "a", "cat", "cat,", "mat", "sat", "the"});
  auto const counted = vectorizer.transform(dataset);
  CHECK(values_of<float>(counted, "text") ==
        std::vector<float>{0, 0, 1, 0, 0, 1, 1, 1, 0, 0, 1, 1, 0, 1, 0, 1, 1, 0, 0, 0, 0});
  CHECK(counted.column("text").row_shape() == raytrain::RowShape{7});
  raytrain::testing::check_comes_back_from_json(vectorizer, dataset);
  // The same with max_features=2: [[1, 1], [0, 1], [1, 0]].
  CountVectorizer two{{"text"}, 2};
  two.fit(dataset);
  CHECK(values_of<float>(two.transform(dataset), "text") == std::vector<float>{1, 1, 0, 1, 1, 0});
}

TEST_CASE("words that come equally often are kept from the smallest on, and those of a text that comes again count") {
  CountVectorizer vectorizer{{"text"}, 2};
  vectorizer.fit(reviews({"d d c", "a", "a", "b b", "z", "z"}));
  CHECK(vectorizer.vocabularies.at("text").texts == std::vector<std::string>{"a", "b"});
}

TEST_CASE("words that fit has not seen, and texts that are missing or blank add nothing") {
  CountVectorizer vectorizer{{"text"}};
  vectorizer.fit(reviews({"a b"}));
  CHECK(values_of<float>(vectorizer.transform(reviews({"b x b", std::nullopt, "", " \n"})), "text") ==
        std::vector<float>{0, 2, 0, 0, 0, 0, 0, 0});
}

TEST_CASE("any number of workers learns the same words") {
  Texts texts;
  for (auto row = 0; row < 6'000; ++row) {
    texts.emplace_back("w" + std::to_string(row / 700) + " w" + std::to_string(row % 17) + " w3");
  }
  auto const learn = [](FitRows const& rows) {
    CountVectorizer vectorizer{{"text"}, 11};
    vectorizer.fit(rows);
    return to_json(vectorizer);
  };
  auto const alone = learn(reviews(texts));
  for (std::uint32_t const workers : {2, 5}) {
    for (auto const& of_worker : raytrain::testing::learnt_by_workers(reviews(texts), workers, learn)) {
      CHECK(of_worker == alone);
    }
  }
}

TEST_CASE("words are of texts in UTF-8, of which there are some, and more than none are kept") {
  auto const fit = [](CountVectorizer vectorizer) {
    return thrown_error([&] {
      vectorizer.fit(Dataset::from_columns({Column::of_texts("text", {"a"}),
                                            Column::of_texts("blank", {" "}),
                                            Column::of_texts("bytes", {"a \xff"}),
                                            {"n", std::vector<int>{1}}}));
    });
  };
  check_contains(fit({}), "invalid_config: CountVectorizer::columns: names no column");
  check_contains(fit({{"text"}, 0}), "invalid_config: CountVectorizer::max_features: must be at least 1 (got 0)");
  check_contains(fit({{"town"}}), "column 'town': is not in the dataset");
  check_contains(fit({{"blank"}}), "invalid_data: CountVectorizer::fit: column 'blank' has no value");
  check_contains(fit({{"bytes"}}), "CountVectorizer::fit: column 'bytes' has '\xEF\xBF\xBD', which is not UTF-8");
  check_contains(fit({{"n"}}), "CountVectorizer::fit: column 'n' holds int32 and no text");
  CountVectorizer vectorizer{{"text"}};
  check_contains(thrown_error([&] { (void)vectorizer.transform(reviews({"a"})); }), "has not learnt from any rows yet");
  vectorizer.fit(reviews({"a"}));
  check_contains(thrown_error([&] {
                   (void)vectorizer.transform(Dataset::from_columns({{"text", std::vector<int>{1}}}));
                 }),
                 "CountVectorizer::transform: column 'text' holds int32 and no text");
}

}  // namespace
