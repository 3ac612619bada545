// SPDX-License-Identifier: Apache-2.0
#include <raytrain/preprocess/chain.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/preprocess/concatenator.hpp>
#include <raytrain/preprocess/count_vectorizer.hpp>
#include <raytrain/preprocess/function_transformer.hpp>
#include <raytrain/preprocess/k_bins_discretizer.hpp>
#include <raytrain/preprocess/label_encoder.hpp>
#include <raytrain/preprocess/max_abs_scaler.hpp>
#include <raytrain/preprocess/min_max_scaler.hpp>
#include <raytrain/preprocess/one_hot_encoder.hpp>
#include <raytrain/preprocess/ordinal_encoder.hpp>
#include <raytrain/preprocess/power_transformer.hpp>
#include <raytrain/preprocess/preprocessor.hpp>
#include <raytrain/preprocess/preprocessor_json.hpp>
#include <raytrain/preprocess/robust_scaler.hpp>
#include <raytrain/preprocess/simple_imputer.hpp>
#include <raytrain/preprocess/standard_scaler.hpp>
#include <raytrain/testing/random_seed.hpp>

#include "../support/thrown_error.hpp"
#include "fit_workers.hpp"

using raytrain::AnyPreprocessor;
using raytrain::Chain;
using raytrain::Column;
using raytrain::Concatenator;
using raytrain::Dataset;
using raytrain::FitRows;
using raytrain::FunctionTransformer;
using raytrain::StandardScaler;
using raytrain::testing::check_contains;
using raytrain::testing::thrown_error;

static_assert(raytrain::InvertiblePreprocessor<Chain>);

namespace {

TEST_CASE("each step learns from what the steps before it make") {
  auto const dataset =
      Dataset::from_columns({{"x", std::vector<double>{1, 2, 3}}, {"y", std::vector<double>{5, 7, 9}}});
  Chain chain{StandardScaler{{"x"}}, StandardScaler{{"x", "y"}}};
  chain.fit(dataset);
  auto const& second = chain.steps()[1].as<StandardScaler>();
  CHECK(second.scales.at("x").shift[0] == doctest::Approx(0));
  CHECK(second.scales.at("x").scale[0] == doctest::Approx(1));
  CHECK(second.scales.at("y").shift[0] == 7);
  auto const back = chain.inverse_transform(chain.transform(dataset));
  CHECK(back.column("y").as<double>()[2] == doctest::Approx(9));
}

TEST_CASE("a chain of a chain holds it, and a copy of a chain is a copy") {
  Chain const inner{StandardScaler{{"x"}}, StandardScaler{{"y"}}};
  Chain const copy{inner};
  CHECK(copy.steps().size() == 2);
  Chain const outer{AnyPreprocessor{inner}};
  CHECK(outer.steps().size() == 1);
  CHECK(outer.steps()[0].type_name() == "Chain");
}

TEST_CASE("a step is found by its type, and a chain is made of steps that are known at run time") {
  Chain const chain{std::vector<AnyPreprocessor>{StandardScaler{{"x"}}, Chain{}}};
  CHECK(chain.step<StandardScaler>().columns.front() == "x");
  CHECK(chain.step<Chain>().steps().empty());
  check_contains(thrown_error([] { (void)Chain{}.step<StandardScaler>(); }), "no step is a StandardScaler");
}

TEST_CASE("any number of workers fits the same chain, to the last digit that JSON has") {
  std::mt19937_64 random{raytrain::testing::random_seed()};
  std::vector<double> values(20'000);
  for (auto& value : values) value = static_cast<double>(random() % 1'000'000) * 0.37;
  auto const dataset = Dataset::from_columns({{"x", values}});
  auto const learn = [](FitRows const& rows) {
    AnyPreprocessor chain{Chain{StandardScaler{{"x"}}, StandardScaler{{"x"}}}};
    chain.fit(rows);
    return to_json(chain);
  };
  auto const alone = learn(dataset);
  for (std::uint32_t const workers : {2, 5}) {
    for (auto const& of_worker : raytrain::testing::learnt_by_workers(dataset, workers, learn))
      CHECK(of_worker == alone);
  }
}

/// Of all calls of `widened`.
std::atomic<std::size_t> widened_rows = 0;

auto widened(Dataset const& rows) -> Dataset {
  widened_rows += rows.rows();
  return rows.with_column({"wide", std::vector<double>(rows.rows(), 1)});
}

TEST_CASE("no rows are made for steps that learn nothing, also where they have learnt before") {
  raytrain::register_function("widened", widened);
  auto const dataset = Dataset::from_columns({{"x", std::vector<double>{1, 2, 3}}});
  Chain last{StandardScaler{{"x"}}, FunctionTransformer{"widened"}, Concatenator{{"x", "wide"}}};
  widened_rows = 0;
  for (auto const* const fit : {"first", "again"}) {
    CAPTURE(fit);
    last.fit(dataset);
    CHECK(widened_rows == 0);
  }
  CHECK(last.transform(dataset).column("features").row_values() == 2);
  Chain inner{FunctionTransformer{"widened"}, StandardScaler{{"x", "wide"}}, Concatenator{{"x", "wide"}}};
  for (auto const* const fit : {"first", "again"}) {
    CAPTURE(fit);
    widened_rows = 0;
    inner.fit(dataset);
    CHECK(widened_rows == 3);
    CHECK(inner.step<StandardScaler>().scales.at("wide").shift[0] == 1);
  }
}

TEST_CASE("no rows are made for a chain in a chain whose steps learn nothing") {
  raytrain::register_function("widened", widened);
  auto const dataset = Dataset::from_columns({{"x", std::vector<double>{1, 2, 3}}});
  Chain const learns_nothing{FunctionTransformer{"widened"}, Concatenator{{"x", "wide"}}};
  CHECK_FALSE(AnyPreprocessor{learns_nothing}.learns_from_rows());
  CHECK_FALSE(AnyPreprocessor{Chain{AnyPreprocessor{learns_nothing}}}.learns_from_rows());
  CHECK(AnyPreprocessor{Chain{AnyPreprocessor{learns_nothing}, StandardScaler{{"features"}}}}.learns_from_rows());
  Chain outer{StandardScaler{{"x"}}, FunctionTransformer{"widened"}, Chain{AnyPreprocessor{learns_nothing}}};
  widened_rows = 0;
  outer.fit(dataset);
  CHECK(widened_rows == 0);
  CHECK(outer.transform(dataset).column("features").row_values() == 2);
}

/// The most rows that `watched` has got at once.
std::atomic<std::size_t> most_rows = 0;

auto watched(Dataset const& rows) -> Dataset {
  most_rows = std::max(most_rows.load(), rows.rows());
  return rows;
}

/// Rows of numbers, of which some are missing, and of texts.
auto mixed_rows(std::size_t count) -> Dataset {
  std::mt19937_64 random{raytrain::testing::random_seed()};
  std::vector<double> x(count);
  std::vector<float> pair(2 * count);
  std::vector<std::optional<std::string>> city(count);
  std::vector<std::optional<std::string>> words(count);
  for (std::size_t row = 0; row < count; ++row) {
    x[row] = random() % 50 == 0 ? std::numeric_limits<double>::quiet_NaN() : static_cast<double>(random() % 999) + 0.37;
    for (std::size_t i = 0; i < 2; ++i) pair[2 * row + i] = static_cast<float>(random() % 17);
    city[row] = "city " + std::to_string(random() % 40);
    words[row] = "word" + std::to_string(random() % 9) + " word" + std::to_string(random() % 9);
  }
  return Dataset::from_columns(
      {{"x", x}, {"pair", pair, {2}}, Column::of_texts("city", city), Column::of_texts("words", words)});
}

TEST_CASE("a step behind another one learns, block by block, what it learns of rows in memory") {
  using namespace raytrain;
  register_function("watched", watched);
  auto const dataset = mixed_rows(60'000);
  std::vector<AnyPreprocessor> const in_blocks{
      StandardScaler{{"x", "pair"}},
      MinMaxScaler{{"x", "pair"}},
      MaxAbsScaler{{"x", "pair"}},
      SimpleImputer{{"x", "pair"}},
      SimpleImputer{.columns = {"city", "x"}, .strategy = ImputeStrategy::most_frequent},
      KBinsDiscretizer{.columns = {"x", "pair"}, .strategy = BinStrategy::uniform},
      OrdinalEncoder{{"city", "x"}},
      OneHotEncoder{{"city"}},
      LabelEncoder{"city"},
      CountVectorizer{{"words"}},
      Concatenator{{"x", "pair"}}};
  std::vector<AnyPreprocessor> const in_memory{
      RobustScaler{{"x", "pair"}}, PowerTransformer{{"x", "pair"}},
      KBinsDiscretizer{.columns = {"x"}, .strategy = BinStrategy::quantile},
      SimpleImputer{.columns = {"x"}, .strategy = ImputeStrategy::median},
      SimpleImputer{.columns = {"pair"}, .strategy = ImputeStrategy::most_frequent}};
  for (auto const* const steps : {&in_blocks, &in_memory}) {
    for (auto step : *steps) {
      CAPTURE(step.type_name());
      auto const learn = [&](FitRows const& rows) {
        Chain chain{FunctionTransformer{"watched"}, Chain{FunctionTransformer{"watched"}, step}};
        chain.fit(rows);
        return to_json(chain.step<Chain>().steps()[1]);
      };
      step.fit(dataset);
      most_rows = 0;
      CHECK(learn(dataset) == to_json(step));
      if (steps == &in_blocks) CHECK(most_rows <= 1024);
      for (auto const& of_worker : testing::learnt_by_workers(dataset, 3, learn)) CHECK(of_worker == to_json(step));
    }
  }
}

TEST_CASE("a chain whose second step fails is as it was before") {
  auto const dataset = Dataset::from_columns({{"x", std::vector<double>{1, 2, 3}}});
  Chain chain{StandardScaler{{"x"}}, StandardScaler{{"y"}}};
  check_contains(thrown_error([&] { chain.fit(dataset); }), "column 'y': is not in the dataset");
  CHECK(!chain.steps()[0].is_fitted());
}

}  // namespace
