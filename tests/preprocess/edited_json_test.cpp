// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/core/error.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/preprocess/any_preprocessor.hpp>
#include <raytrain/preprocess/chain.hpp>
#include <raytrain/preprocess/count_vectorizer.hpp>
#include <raytrain/preprocess/k_bins_discretizer.hpp>
#include <raytrain/preprocess/label_encoder.hpp>
#include <raytrain/preprocess/max_abs_scaler.hpp>
#include <raytrain/preprocess/min_max_scaler.hpp>
#include <raytrain/preprocess/multi_hot_encoder.hpp>
#include <raytrain/preprocess/one_hot_encoder.hpp>
#include <raytrain/preprocess/ordinal_encoder.hpp>
#include <raytrain/preprocess/power_transformer.hpp>
#include <raytrain/preprocess/preprocessor.hpp>
#include <raytrain/preprocess/preprocessor_json.hpp>
#include <raytrain/preprocess/robust_scaler.hpp>
#include <raytrain/preprocess/simple_imputer.hpp>
#include <raytrain/preprocess/standard_scaler.hpp>
#include <raytrain/preprocess/tokenizer.hpp>
#include <raytrain/testing/random_seed.hpp>

#include "../support/thrown_error.hpp"

// JSON of a preprocessor is a text that people edit and disks damage.

namespace {

using raytrain::AnyPreprocessor;
using raytrain::testing::check_contains;
using raytrain::testing::thrown_error;

auto refusal_of(std::string const& type, std::string const& state) -> std::string {
  return thrown_error([&] {
    (void)raytrain::preprocessor_from_json(R"({"type": ")" + type + R"(", "version": 1, "state": )" + state + "}");
  });
}

TEST_CASE("scales that are missing, not finite or 0 are refused where they are read") {
  auto const of_scales = [](std::string const& shift, std::string const& scale) {
    return refusal_of("StandardScaler", R"({"columns": ["x"], "scales": {"x": {"shift": [)" + shift +
                                            R"(], "scale": [)" + scale + "]}}}");
  };
  check_contains(of_scales("1, 2", "1"), "invalid_data: StandardScaler::scales: column 'x' has 2 shifts and 1 scales");
  check_contains(of_scales("", ""), "column 'x' has 0 shifts and 0 scales");
  auto const* const not_finite = "column 'x' has a shift or a scale that is not finite, or a scale of 0";
  check_contains(of_scales("1", "0"), not_finite);
  check_contains(of_scales("1", R"("Infinity")"), not_finite);
  check_contains(of_scales(R"("NaN")", "1"), not_finite);
  for (std::string const type : {"MaxAbsScaler", "RobustScaler", "MinMaxScaler"}) {
    auto const range = type == "MaxAbsScaler"   ? std::string{}
                       : type == "RobustScaler" ? R"("quantile_range": {"min": 0, "max": 1}, )"
                                                : R"("feature_range": {"min": 0, "max": 1}, )";
    check_contains(
        refusal_of(type, R"({"columns": ["x"], )" + range + R"("scales": {"x": {"shift": [1], "scale": []}}})"),
        type + "::scales: column 'x' has 1 shifts and 0 scales");
  }
}

TEST_CASE("categories that do not ascend, are of both kinds or none are refused where they are read") {
  auto const of_categories = [](std::string const& texts, std::string const& numbers) {
    return refusal_of("OrdinalEncoder",
                      R"({"columns": ["x"], "max_categories": null, "handle_unknown": "error", "unknown_value": -1, )"
                      R"("categories": {"x": {"texts": [)" +
                          texts + R"(], "numbers": [)" + numbers + R"(], "has_others": false}}})");
  };
  auto const* const unordered =
      "invalid_data: OrdinalEncoder::categories: column 'x' has categories that do not ascend";
  check_contains(of_categories("", "1, 1e9, 2"), unordered);
  check_contains(of_categories("", "1, 1"), unordered);
  check_contains(of_categories("", R"(1, "NaN")"), unordered);
  check_contains(of_categories(R"("b", "a")", ""), unordered);
  check_contains(of_categories(R"("b")", "1"), "column 'x' has both texts and numbers");
  check_contains(of_categories("", ""), "column 'x' has no categories");
  check_contains(
      refusal_of("LabelEncoder",
                 R"({"label_column": "x", "categories": {"texts": [], "numbers": [2, 1], "has_others": false}})"),
      "LabelEncoder::categories: it has categories that do not ascend");
  check_contains(refusal_of("Tokenizer", R"({"columns": ["x"], "length": 0, "max_features": null, "min_count": 1,
                                             "vocabularies": {}})"),
                 "invalid_data: Tokenizer::length: must be from 1 to 1048576 (got 0)");
  check_contains(refusal_of("Tokenizer", R"({"columns": ["x"], "length": 2, "max_features": null, "min_count": 1,
                             "vocabularies": {"x": {"texts": ["b", "a"], "numbers": [], "has_others": false}}})"),
                 "invalid_data: Tokenizer::vocabularies: column 'x' has categories that do not ascend");
  check_contains(refusal_of("MultiHotEncoder", R"({"columns": ["x"], "delimiter": "", "max_categories": null,
                                                   "handle_unknown": "error", "categories": {}})"),
                 "invalid_data: MultiHotEncoder::delimiter: is empty");
}

TEST_CASE("edges, powers and fills that none learns are refused where they are read") {
  auto const of_edges = [](std::string const& edges) {
    return refusal_of("KBinsDiscretizer", R"({"columns": ["x"], "n_bins": 2, "strategy": "uniform", "bins": {},
                                              "edges": {"x": [)" +
                                              edges + "]}}");
  };
  for (auto const* const edges : {"", "[]", "[1]", "[0, 1], [2, 1]", R"([0, "Infinity"])", R"(["NaN", 1])"}) {
    check_contains(of_edges(edges), "KBinsDiscretizer::edges: column 'x' needs two ascending, finite edges or more");
  }
  auto const of_powers = [](std::string const& powers) {
    return refusal_of("PowerTransformer", R"({"columns": ["x"], "method": "box_cox", "power": null,
        "standardize": true, "powers": {)" + powers +
                                              R"(}, "scales": {"x": {"shift": [1], "scale": [1]}}})");
  };
  check_contains(of_powers(""), "PowerTransformer::powers: column 'x' has 0 powers and 1 scales");
  check_contains(of_powers(R"("x": [1, 2])"), "column 'x' has 2 powers and 1 scales");
  check_contains(of_powers(R"("x": ["NaN"])"), "column 'x' has a power that is not finite");
  auto const of_fill = [](std::string const& numbers, std::string const& text) {
    return refusal_of("SimpleImputer", R"({"columns": ["x"], "strategy": "mean", "fill_value": null,
        "fill_text": null, "fills": {"x": {"numbers": [)" +
                                           numbers + R"(], "text": )" + text + "}}}");
  };
  auto const* const no_fill = "SimpleImputer::fills: column 'x' needs finite numbers, or else a text";
  check_contains(of_fill("", "null"), no_fill);
  check_contains(of_fill("1", R"("a")"), no_fill);
  check_contains(of_fill(R"("NaN")", "null"), no_fill);
}

/// With a number, a name or a piece changed, taken out or written twice.
auto damaged(std::string text, std::mt19937_64& random) -> std::string {
  constexpr std::string_view values[] = {"0",       "-1",           "2.5",   "1e308",     "5e-324", "1000000000",
                                         "\"NaN\"", "\"Infinity\"", "null",  "\"Oslo\"",  "[]",     "{}",
                                         "[1, 2]",  "true",         "\"x\"", "4294967296"};
  auto const is_of_value = [](char letter) {
    return std::string_view{" ,:[]{}\n"}.find(letter) == std::string_view::npos;
  };
  for (auto changes = random() % 3 == 0 ? 2 : 1; changes > 0 && !text.empty(); --changes) {
    auto first = static_cast<std::size_t>(random() % text.size());
    auto const one_letter = random() % 4 == 0;
    if (one_letter) {
      text[first] = "0123456789,:[]{}\"-.eax"[random() % 22];
      continue;
    }
    while (first < text.size() && !is_of_value(text[first])) ++first;
    while (first > 0 && is_of_value(text[first - 1])) --first;
    auto last = first;
    while (last < text.size() && is_of_value(text[last])) ++last;
    auto const comma = text.find(',', last);
    switch (random() % 3) {
      case 0: text.replace(first, last - first, values[random() % std::size(values)]); break;
      case 1: text.erase(first, (comma == std::string::npos ? last : comma + 1) - first); break;
      default: text.insert(first, text.substr(first, last - first) + ", "); break;
    }
  }
  return text;
}

TEST_CASE("JSON with random damage is refused by an Error, or gives a preprocessor that transforms or is refused") {
  using namespace raytrain;
  auto const rows = Dataset::from_columns({{"x", std::vector<double>{1, 2, 3.5, 7, 2}},
                                           {"pair", std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 9, 1}, {2}},
                                           {"n", std::vector<std::int64_t>{1, 4, 2, 7, 3}},
                                           Column::of_texts("t", {"Oslo", "Rome|Bern", "Bern a", "Oslo", {}})});
  std::vector<AnyPreprocessor> const all{StandardScaler{{"x", "pair"}},
                                         MinMaxScaler{{"x", "pair"}},
                                         MaxAbsScaler{{"x", "pair"}},
                                         RobustScaler{{"x", "pair"}},
                                         KBinsDiscretizer{{"x", "pair"}, 3},
                                         PowerTransformer{{"x", "pair"}},
                                         SimpleImputer{{"x", "pair"}},
                                         SimpleImputer{{"t", "x"}, ImputeStrategy::most_frequent},
                                         LabelEncoder{"n"},
                                         OneHotEncoder{{"n", "t"}},
                                         OrdinalEncoder{{"n", "t"}},
                                         MultiHotEncoder{{"t"}},
                                         CountVectorizer{{"t"}},
                                         Tokenizer{{"t"}, 3},
                                         Chain{StandardScaler{{"x"}}, OrdinalEncoder{{"n", "t"}}}};
  std::mt19937_64 random{raytrain::testing::random_seed()};
  std::size_t read = 0;
  for (auto preprocessor : all) {
    CAPTURE(preprocessor.type_name());
    preprocessor.fit(rows);
    auto const json = to_json(preprocessor);
    for (auto round = 0; round < 1'000; ++round) {
      auto const text = damaged(json, random);
      CAPTURE(text);
      try {
        auto const loaded = preprocessor_from_json(text);
        ++read;
        try {
          auto const made = loaded.transform(rows);
          (void)loaded.inverse_transform(made);
        } catch (Error const&) {
        }
      } catch (Error const&) {
      } catch (std::exception const& other) {
        FAIL_CHECK("throws what is no Error: ", other.what());
      }
    }
  }
  CHECK(read > 200);  // else damage is never looked at behind the parser
}

TEST_CASE_TEMPLATE("a column that is taken out of the settings after fit stays as it is", P, raytrain::StandardScaler,
                   raytrain::MinMaxScaler, raytrain::MaxAbsScaler, raytrain::RobustScaler, raytrain::KBinsDiscretizer,
                   raytrain::PowerTransformer, raytrain::SimpleImputer) {
  auto const gap = std::numeric_limits<double>::quiet_NaN();
  auto const dataset = raytrain::Dataset::from_columns(
      {{"x", std::vector<double>{2, gap, 5, 9}}, {"y", std::vector<double>{3, 4, gap, 9}}});
  P preprocessor{{"x", "y"}};
  preprocessor.fit(dataset);
  preprocessor.columns = {"x"};
  auto const made = preprocessor.transform(dataset);
  auto const y = [](raytrain::Dataset const& of) { return raytrain::Dataset::from_columns({of.column("y")}).digest(); };
  CHECK(y(made) == y(dataset));
  CHECK(made.digest() != dataset.digest());
  if constexpr (raytrain::InvertiblePreprocessor<P>) CHECK(y(preprocessor.inverse_transform(made)) == y(dataset));
}

}  // namespace
