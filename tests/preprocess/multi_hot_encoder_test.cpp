// SPDX-License-Identifier: Apache-2.0
#include <raytrain/preprocess/multi_hot_encoder.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/preprocess/fit_rows.hpp>
#include <raytrain/preprocess/handle_unknown.hpp>
#include <raytrain/preprocess/preprocessor.hpp>
#include <raytrain/preprocess/preprocessor_json.hpp>

#include "../support/thrown_error.hpp"
#include "encoders.hpp"
#include "fit_workers.hpp"

using raytrain::Column;
using raytrain::Dataset;
using raytrain::FitRows;
using raytrain::MultiHotEncoder;
using raytrain::testing::check_contains;
using raytrain::testing::Texts;
using raytrain::testing::thrown_error;
using raytrain::testing::values_of;

static_assert(raytrain::Preprocessor<MultiHotEncoder> && raytrain::InvertiblePreprocessor<MultiHotEncoder>);

namespace {

auto films(Texts const& genres) -> Dataset { return Dataset::from_columns({Column::of_texts("genres", genres)}); }

TEST_CASE("joined values are those of scikit-learn's MultiLabelBinarizer") {
  auto const dataset = films({"drama|war", "comedy", "war|drama|war", "comedy|romance"});
  MultiHotEncoder encoder{{"genres"}};
  encoder.fit(dataset);
  auto const encoded = encoder.transform(dataset);
  // scikit-learn 1.9.1:
  //   texts = ["drama|war", "comedy", "war|drama|war", "comedy|romance"]
  //   MultiLabelBinarizer().fit_transform([text.split("|") for text in texts])
  CHECK(values_of<float>(encoded, "genres") == std::vector<float>{0, 1, 0, 1, 1, 0, 0, 0, 0, 1, 0, 1, 1, 0, 1, 0});
  CHECK(encoded.column("genres").row_shape() == raytrain::RowShape{4});
  CHECK(encoder.categories.at("genres").texts == std::vector<std::string>{"comedy", "drama", "romance", "war"});
  raytrain::testing::check_comes_back_from_json(encoder, dataset);
}

TEST_CASE("what lies between delimiters is a value, blanks and all, unless it is empty") {
  auto const dataset = films({", ,a , b,,a", std::nullopt, "", ", "});
  MultiHotEncoder encoder{.columns = {"genres"}, .delimiter = ", "};
  encoder.fit(dataset);
  CHECK(encoder.categories.at("genres").texts == std::vector<std::string>{",a ", "b,,a"});
  CHECK(values_of<float>(encoder.transform(dataset), "genres") == std::vector<float>{1, 1, 0, 0, 0, 0, 0, 0});
}

TEST_CASE("joined values come back in their order, each once, and a row of zeros as a missing text") {
  auto const dataset = films({"war|drama|war", "comedy", std::nullopt, ""});
  MultiHotEncoder encoder{{"genres"}};
  encoder.fit(dataset);
  auto const back = encoder.inverse_transform(encoder.transform(dataset));
  CHECK(raytrain::testing::texts_of(back.column("genres")) ==
        std::vector<std::string>{"drama|war", "comedy", "(none)", "(none)"});
  MultiHotEncoder const other{.columns = {"genres"}, .delimiter = ", ", .categories = encoder.categories};
  auto const rows = Dataset::from_columns({{"genres", std::vector<std::uint8_t>{1, 1, 0, 0, 0, 1}, {3}}});
  CHECK(raytrain::testing::texts_of(other.inverse_transform(rows).column("genres")) ==
        std::vector<std::string>{"comedy, drama", "war"});
}

TEST_CASE("what is neither 0 nor 1, or of another shape, is no row of joined values") {
  MultiHotEncoder encoder{{"genres"}};
  auto const back = [&](std::vector<float> values, raytrain::RowShape shape) {
    return thrown_error([&] {
      (void)encoder.inverse_transform(Dataset::from_columns({{"genres", std::move(values), std::move(shape)}}));
    });
  };
  check_contains(back({1, 0}, {2}), "MultiHotEncoder::inverse_transform: it has not learnt from any rows yet");
  encoder.fit(films({"a|b"}));
  CHECK(back({1, 0.75F}, {2}) ==
        "invalid_data: MultiHotEncoder::inverse_transform: column 'genres' has 0.75, and not 0 or 1; make 0 or 1 of "
        "probabilities before, as by a threshold of 0.5");
  check_contains(back({1, std::numeric_limits<float>::quiet_NaN()}, {2}), "column 'genres' has nan, and not 0 or 1");
  check_contains(back({1, 0, 1}, {3}),
                 "MultiHotEncoder::inverse_transform: column 'genres' has 3 values a row, and had 2");
  check_contains(thrown_error([&] { (void)encoder.inverse_transform(films({"a"})); }),
                 "MultiHotEncoder::inverse_transform: column 'genres' holds text");
}

TEST_CASE("the values that come most often are kept, each time counted") {
  MultiHotEncoder encoder{.columns = {"genres"}, .max_categories = 2};
  encoder.fit(films({"c|c|c", "b", "b|a", "a", "d"}));
  CHECK(encoder.categories.at("genres").texts == std::vector<std::string>{"a", "c"});
  CHECK(values_of<float>(encoder.transform(films({"d|c|new"})), "genres") == std::vector<float>{0, 1});
}

TEST_CASE("any number of workers learns the same joined values") {
  Texts genres;
  for (auto row = 0; row < 6'000; ++row) {
    genres.emplace_back("g" + std::to_string(row / 900) + "|g" + std::to_string(row % 13));
  }
  auto const learn = [](FitRows const& rows) {
    MultiHotEncoder encoder{.columns = {"genres"}, .max_categories = 9};
    encoder.fit(rows);
    return to_json(encoder);
  };
  auto const alone = learn(films(genres));
  for (std::uint32_t const workers : {2, 5}) {
    for (auto const& of_worker : raytrain::testing::learnt_by_workers(films(genres), workers, learn)) {
      CHECK(of_worker == alone);
    }
  }
}

TEST_CASE("joined values that fit has not seen are refused, or ignored where that is asked for") {
  MultiHotEncoder encoder{{"genres"}};
  encoder.fit(films({"a|b"}));
  check_contains(thrown_error([&] {
                   (void)encoder.transform(films({"b", "b|x"}));
                 }),
                 "invalid_data: MultiHotEncoder::transform: column 'genres' has 'x', which was not in the rows");
  encoder.handle_unknown = raytrain::HandleUnknown::ignore;
  CHECK(values_of<float>(encoder.transform(films({"x|b"})), "genres") == std::vector<float>{0, 1});
}

TEST_CASE("joined values have settings in their range, and columns of text") {
  auto const fit = [](MultiHotEncoder encoder) {
    return thrown_error([&] {
      encoder.fit(Dataset::from_columns({Column::of_texts("genres", {"a"}),
                                         Column::of_texts("gap", {"||"}),
                                         Column::of_texts("bytes", {"a|\xff"}),
                                         {"n", std::vector<float>{1}}}));
    });
  };
  check_contains(fit({}), "invalid_config: MultiHotEncoder::columns: names no column");
  check_contains(fit({{"genres"}, ""}), "invalid_config: MultiHotEncoder::delimiter: is empty");
  check_contains(fit({{"genres"}, "\xff"}), "invalid_config: MultiHotEncoder::delimiter: is not UTF-8");
  check_contains(fit({{"genres"}, "|", 0}), "invalid_config: MultiHotEncoder::max_categories: must be at least 1");
  check_contains(fit({{"town"}}), "column 'town': is not in the dataset");
  check_contains(fit({{"gap"}}), "invalid_data: MultiHotEncoder::fit: column 'gap' has no value");
  check_contains(fit({{"bytes"}}), "MultiHotEncoder::fit: column 'bytes' has '\xEF\xBF\xBD', which is not UTF-8");
  check_contains(fit({{"n"}}), "MultiHotEncoder::fit: column 'n' holds float32 and no text");
  MultiHotEncoder encoder{{"genres"}};
  check_contains(thrown_error([&] { (void)encoder.transform(films({"a"})); }),
                 "MultiHotEncoder::transform: it has not learnt from any rows yet");
  encoder.fit(films({"a"}));
  check_contains(thrown_error([&] {
                   (void)encoder.transform(Dataset::from_columns({{"genres", std::vector<int>{1}}}));
                 }),
                 "MultiHotEncoder::transform: column 'genres' holds int32 and no text");
}

}  // namespace
