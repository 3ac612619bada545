// SPDX-License-Identifier: Apache-2.0
#include <raytrain/preprocess/tokenizer.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/preprocess/fit_rows.hpp>
#include <raytrain/preprocess/preprocessor.hpp>
#include <raytrain/preprocess/preprocessor_json.hpp>
#include <raytrain/testing/random_seed.hpp>

#include "../support/thrown_error.hpp"
#include "encoders.hpp"
#include "fit_workers.hpp"

using raytrain::Column;
using raytrain::Dataset;
using raytrain::FitRows;
using raytrain::Tokenizer;
using raytrain::testing::check_contains;
using raytrain::testing::Texts;
using raytrain::testing::thrown_error;
using raytrain::testing::values_of;

static_assert(raytrain::Preprocessor<Tokenizer> && !raytrain::InvertiblePreprocessor<Tokenizer>);

namespace {

using Tokens = std::vector<std::int32_t>;

auto noted(Texts const& texts) -> Dataset { return Dataset::from_columns({Column::of_texts("text", texts)}); }

auto learnt(Tokenizer tokenizer, Dataset const& rows) -> Tokenizer {
  tokenizer.fit(rows);
  return tokenizer;
}

TEST_CASE("words are numbered from 2 on in the order of their bytes, and rows are cut and padded to one length") {
  auto const dataset =
      noted({"the cat sat on\tthe mat", " a\ncat ", "", std::nullopt, " \n", "the cat sat on\tthe mat"});
  auto const tokenizer = learnt({{"text"}, 4}, dataset);
  CHECK(tokenizer.vocabularies.at("text").texts == std::vector<std::string>{"a", "cat", "mat", "on", "sat", "the"});
  CHECK(tokenizer.num_tokens("text") == 8);
  auto const made = tokenizer.transform(dataset);
  CHECK(made.column("text").describe() == "text (int32, 4)");
  CHECK(values_of<std::int32_t>(made, "text") ==
        Tokens{7, 3, 6, 5, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 3, 6, 5});
  raytrain::testing::check_comes_back_from_json(tokenizer, dataset);
  auto const missing =
      Dataset::from_columns({{"text", std::vector<float>(2, std::numeric_limits<float>::quiet_NaN())}});
  CHECK(values_of<std::int32_t>(tokenizer.transform(missing), "text") == Tokens(8, Tokenizer::padding));
}

TEST_CASE("words that were not learnt, as new, rare or beyond the most frequent ones, are the unknown one") {
  auto const dataset = noted({"b b a", "c a b", "d"});
  CHECK(values_of<std::int32_t>(learnt({{"text"}, 3}, dataset).transform(noted({"a x D"})), "text") == Tokens{2, 1, 1});
  auto const frequent = learnt({.columns = {"text"}, .length = 3, .min_count = 2}, dataset);
  CHECK(frequent.vocabularies.at("text").texts == std::vector<std::string>{"a", "b"});
  CHECK(values_of<std::int32_t>(frequent.transform(dataset), "text") == Tokens{3, 3, 2, 1, 2, 3, 1, 0, 0});
  auto const two = learnt({{"text"}, 3, 1}, dataset);
  CHECK(two.num_tokens("text") == 3);
  CHECK(values_of<std::int32_t>(two.transform(dataset), "text") == Tokens{2, 2, 1, 1, 1, 2, 1, 0, 0});
}

TEST_CASE("each number of random texts is that of the word in its place, also in a part of the rows") {
  std::mt19937_64 random{raytrain::testing::random_seed()};
  Texts texts;
  std::vector<std::vector<std::string>> words;
  for (auto row = 0; row < 500; ++row) {
    auto& of_row = words.emplace_back();
    std::string text;
    for (auto left = random() % 9; left > 0; --left) {
      of_row.push_back("w" + std::to_string(random() % 12));
      text += of_row.back() + (random() % 2 == 0 ? " " : "\t ");
    }
    texts.emplace_back(std::move(text));
  }
  auto const dataset = noted(texts);
  auto const tokenizer = learnt({{"text"}, 5}, dataset);
  auto const& known = tokenizer.vocabularies.at("text").texts;
  auto const numbers = values_of<std::int32_t>(tokenizer.transform(dataset), "text");
  for (std::size_t row = 0; row < words.size(); ++row) {
    for (std::size_t i = 0; i < 5; ++i) {
      auto const number = numbers[row * 5 + i];
      REQUIRE((i < words[row].size()) == (number != Tokenizer::padding));
      if (number != Tokenizer::padding) CHECK(known[static_cast<std::size_t>(number - 2)] == words[row][i]);
    }
  }
  auto const part = values_of<std::int32_t>(tokenizer.transform(dataset.split_at(480).second), "text");
  CHECK(std::ranges::equal(part, std::vector(numbers.begin() + 480 * 5, numbers.end())));
}

TEST_CASE("any number of workers learns the same numbers") {
  Texts texts;
  for (auto row = 0; row < 6'000; ++row) {
    texts.emplace_back("w" + std::to_string(row / 700) + " w" + std::to_string(row % 17) + " w3");
  }
  auto const learn = [](FitRows const& rows) {
    Tokenizer tokenizer{.columns = {"text"}, .length = 4, .max_features = 11, .min_count = 350};
    tokenizer.fit(rows);
    return to_json(tokenizer);
  };
  auto const alone = learn(noted(texts));
  for (std::uint32_t const workers : {2, 5}) {
    for (auto const& of_worker : raytrain::testing::learnt_by_workers(noted(texts), workers, learn)) {
      CHECK(of_worker == alone);
    }
  }
}

TEST_CASE("a length, columns of text and words that come often enough are asked for, and named where they lack") {
  auto const fit = [](Tokenizer tokenizer) {
    return thrown_error([&] {
      tokenizer.fit(Dataset::from_columns({Column::of_texts("text", {"a b b"}),
                                           Column::of_texts("blank", {" "}),
                                           Column::of_texts("bytes", {"a \xff"}),
                                           {"n", std::vector<int>{1}}}));
    });
  };
  check_contains(fit({{}, 3}), "invalid_config: Tokenizer::columns: names no column");
  check_contains(
      fit({{"text"}}),
      "invalid_config: Tokenizer::length: must be from 1 to 1048576 (got 0); write Tokenizer{{\"text\"}, 32}");
  check_contains(fit({{"text"}, 1'048'577}), "Tokenizer::length: must be from 1 to 1048576 (got 1048577)");
  check_contains(fit({{"text"}, 3, 0}), "invalid_config: Tokenizer::max_features: must be at least 1 (got 0)");
  check_contains(fit({{"town"}, 3}), "column 'town': is not in the dataset");
  check_contains(fit({{"blank"}, 3}), "invalid_data: Tokenizer::fit: column 'blank' has no value");
  check_contains(fit({.columns = {"text"}, .length = 3, .min_count = 3}),
                 "invalid_data: Tokenizer::fit: no word of column 'text' comes 3 times; the most frequent one comes 2");
  check_contains(fit({{"bytes"}, 3}), "Tokenizer::fit: column 'bytes' has '\xEF\xBF\xBD', which is not UTF-8");
  check_contains(fit({{"n"}, 3}), "Tokenizer::fit: column 'n' holds int32 and no text");
  Tokenizer tokenizer{{"text"}, 3};
  check_contains(thrown_error([&] { (void)tokenizer.transform(noted({"a"})); }), "has not learnt from any rows yet");
  check_contains(thrown_error([&] { (void)tokenizer.num_tokens("text"); }), "has not learnt from any rows yet");
  tokenizer.fit(noted({"a"}));
  check_contains(thrown_error([&] { (void)tokenizer.num_tokens("town"); }),
                 "not_found: Tokenizer::num_tokens('town'): no such column was learnt from; there are text");
  check_contains(thrown_error([&] {
                   (void)tokenizer.transform(Dataset::from_columns({{"text", std::vector<int>{1}}}));
                 }),
                 "Tokenizer::transform: column 'text' holds int32 and no text");
  check_contains(thrown_error([&] {
                   (void)tokenizer.transform(Dataset::from_columns({{"n", std::vector<int>{1}}}));
                 }),
                 "column 'text': is not in the dataset");
}

}  // namespace
