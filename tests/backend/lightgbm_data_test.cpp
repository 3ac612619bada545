// SPDX-License-Identifier: Apache-2.0
#include <raytrain/backend/lightgbm.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/backend/lightgbm/lightgbm_predictor.hpp>
#include <raytrain/trainer.hpp>

#include "../support/temporary_folder.hpp"
#include "../support/thrown_error.hpp"
#include "boosting_samples.hpp"
#include "lightgbm_runs.hpp"

namespace {

using namespace raytrain;
using raytrain::testing::check_contains;
using raytrain::testing::config;
using raytrain::testing::LightGBMTrainer;
using raytrain::testing::model_of;
using raytrain::testing::parameters;
using raytrain::testing::refused;
using raytrain::testing::TemporaryFolder;
using raytrain::testing::thrown_error;

auto ramp(int rows) -> std::vector<float> {
  std::vector<float> values;
  for (int i = 0; i < rows; ++i) values.push_back(static_cast<float>(i));
  return values;
}

TEST_CASE("parameters that LightGBM would not take, or not look at, are refused") {
  TemporaryFolder const folder;
  auto const with = config(folder, 2);
  auto params = parameters();
  params.params = {{"shrinkage_rate", "0.3"}};
  check_contains(refused(params, with), "shrinkage_rate=0.3 will be ignored");
  params.params = {{"monotone_constraints", "1, 0"}};
  check_contains(refused(params, with), "LightGBM's parameter 'monotone_constraints=1, 0': has a space");
  params.params = {{"tree_learner", "sideways"}};
  check_contains(refused(params, with), "sideways");
}

TEST_CASE("workers with other features are told apart before LightGBM adds up what does not belong together") {
  TemporaryFolder const folder;
  LightGBMTrainer trainer{[](LightGBMContext& ctx) {
                            auto params = parameters();
                            if (ctx.world_rank() == Rank{1}) params.weight = "noise";
                            (void)ctx.dataset("train", params);
                          },
                          config(folder, 2)};
  check_contains(thrown_error([&] { trainer.fit(); }),
                 "rank 1 has 3 features (x_0, x_1, x_2), and rank 0 has 4 features (x_0, x_1, x_2, noise)");
}

TEST_CASE("workers with other parameters are told apart before their models are others, or sums of what is not alike") {
  auto const told = [](auto const& change) {
    TemporaryFolder const folder;
    LightGBMTrainer trainer{[&](LightGBMContext& ctx) {
                              auto const usual = parameters();
                              auto params = usual;
                              if (ctx.world_rank() == Rank{1}) change(params);
                              auto const train = ctx.dataset("train", params);
                              (void)ctx.booster(params, train);
                            },
                            config(folder, 3)};
    return thrown_error([&] { trainer.fit(); });
  };
  check_contains(told([](LightGBMParams& params) { params.learning_rate = 0.3; }),
                 "LightGBMContext::dataset(\"train\"): rank 1 has learning_rate = 0.3, and rank 0 has learning_rate = "
                 "0.1; give all workers the same parameters");
  check_contains(told([](LightGBMParams& params) { params.categorical = {"noise"}; }),
                 "rank 1 has categorical = noise, and rank 0 has categorical = ");
  check_contains(told([](LightGBMParams& params) {
                   params.params = {{"bagging_seed", "3"}};
                 }),
                 "rank 1 has bagging_seed = 3, and rank 0 has nothing in its place");
  TemporaryFolder const folder;
  LightGBMTrainer later{[&](LightGBMContext& ctx) {
                          auto params = parameters();
                          auto const train = ctx.dataset("train", params);
                          if (ctx.world_rank() == Rank{1}) params.num_leaves = 3;
                          (void)ctx.booster(params, train);
                        },
                        config(folder, 2)};
  check_contains(thrown_error([&] { later.fit(); }),
                 "LightGBMContext::booster: rank 1 has num_leaves = 3, and rank 0 has num_leaves = 15");
}

TEST_CASE("workers that LightGBM would let learn from their own rows alone are refused") {
  TemporaryFolder const folder;
  auto params = parameters();
  params.params = {{"tree_learner", "serial"}};
  CHECK(model_of(LightGBMTrainer{params, config(folder, 1)}.fit()).find("Tree=0") != std::string::npos);
  check_contains(refused(params, config(TemporaryFolder{}, 2, LightGBMMode::distributed)),
                 "LightGBMParams::params: 'tree_learner' is 'serial', by which each of 2 workers would learn from its "
                 "own rows alone; leave it out");
}

TEST_CASE("rows without a label are neither trained on nor evaluated") {
  auto const rows = Dataset::from_columns({{"x", ramp(100)}, {"target", ramp(100)}});
  std::map<std::string, std::string> const params{{"verbosity", "-1"}};
  LightGBMDataset const train{rows, {.label = "target", .params = params}};
  LightGBMDataset const unlabelled{rows.drop_columns({"target"}), {.params = params}, &train};
  CHECK(thrown_error([&] {
          LightGBMBooster{train, params, {{"valid", &unlabelled}}};
        }) ==
        "invalid_call: LightGBMBooster: the dataset 'valid' has no labels; name its column by "
        "LightGBMDatasetOptions::label");
  check_contains(thrown_error([&] { LightGBMBooster{unlabelled, params}; }), "the dataset 'train' has no labels");
}

TEST_CASE("columns in another order than the training's are refused, unless the model's features have no names") {
  auto const data =
      Dataset::from_columns({{"two words", std::vector<float>(100, 0)}, {"x", ramp(100)}, {"target", ramp(100)}});
  LightGBMDatasetOptions const options{.label = "target"};
  LightGBMDataset const train{data, options};
  LightGBMBooster booster{train, {{"verbosity", "-1"}, {"min_data_in_leaf", "1"}}};
  booster.update();
  auto const predicted = booster.predict(data, options).values;
  auto const swapped = data.select_columns({"x", "two words", "target"});
  check_contains(
      thrown_error([&] { (void)booster.predict(swapped, options); }),
      "invalid_data: predicting from a model of LightGBM: its feature 0 is 'two_words', and that of the data "
      "'x'; give the columns of the training, in their order, or name them by "
      "LightGBMDatasetOptions::features");
  CHECK(booster.predict(swapped, {.features = {"two words", "x"}}).values == predicted);
  auto text = booster.to_text();
  std::string const named = "feature_names=two_words x\n";
  text.replace(text.find(named), named.size(), "feature_names=Column_0 Column_1\n");
  LightGBMBooster const unnamed{bytes_of(text)};
  CHECK(unnamed.predict(data, options).values == predicted);
  CHECK(unnamed.predict(swapped, options).values != predicted);
}

TEST_CASE("numbers that are the same as floats are told apart, and categories are split as such") {
  std::vector<double> big;
  std::vector<std::int32_t> color;
  std::vector<float> target;
  for (int i = 0; i < 400; ++i) {
    big.push_back(16'777'216.0 + i % 2);
    color.push_back(i / 2 % 8);
    target.push_back(i % 2 == 1 || color.back() == 2 || color.back() == 5 ? 1 : 0);
  }
  TemporaryFolder const folder;
  auto with = config(folder, 1);
  auto const data = Dataset::from_columns({{"big", big}, {"color", color}, {"target", target}});
  with.datasets = {{"train", data}};
  LightGBMParams params{.label = "target",
                        .categorical = {"color"},
                        .objective = "binary",
                        .metric = {"auc"},
                        .num_iterations = 20,
                        .params = {{"min_data_per_group", "1"}, {"cat_smooth", "1"}}};
  auto const result = LightGBMTrainer{params, with}.fit();
  CHECK(*result.metrics.number("train-auc") > 0.99);
  check_contains(model_of(result), "cat_threshold=");
}

TEST_CASE("a worker whose rows all have the weight 0 does not count in a metric") {
  std::vector<float> x;
  std::vector<float> target;
  std::vector<float> weight;
  for (int i = 0; i < 400; ++i) {
    x.push_back(static_cast<float>(i % 20));
    target.push_back(i % 20 < 10 ? 0 : 1);
    weight.push_back(i < 200 ? 1.0F : 0.0F);
  }
  TemporaryFolder const folder;
  auto with = config(folder, 2, LightGBMMode::distributed);
  with.datasets = {{"train", Dataset::from_columns({{"x", x}, {"weight", weight}, {"target", target}})}};
  LightGBMParams const params{
      .label = "target", .weight = "weight", .objective = "binary", .metric = {"binary_logloss"}, .num_iterations = 5};
  auto const loss = LightGBMTrainer{params, with}.fit().metrics.number("train-binary_logloss");
  REQUIRE(loss.has_value());
  CHECK(*loss < 0.69);
}

TEST_CASE("rows count by their weight") {
  std::vector<float> x;
  std::vector<float> weight;
  std::vector<float> target;
  for (int i = 0; i < 400; ++i) {
    x.push_back(static_cast<float>(i / 2 % 10));
    target.push_back(static_cast<float>(i % 2));
    weight.push_back(i % 2 == 1 ? 3.0F : 1.0F);
  }
  TemporaryFolder const folder;
  auto with = config(folder, 1);
  auto const data = Dataset::from_columns({{"x", x}, {"weight", weight}, {"target", target}});
  with.datasets = {{"train", data}};
  auto params = parameters(5);
  params.objective = "regression";
  params.metric = {"l2"};
  params.weight = "weight";
  auto const result = LightGBMTrainer{params, with}.fit();
  LightGBMPredictor const predictor{result.checkpoint().value()};
  auto const predictions = predictor.predict(data, {.label = "target", .weight = "weight"});
  CHECK(predictions.values.front() == doctest::Approx(0.75));
  CHECK(predictions.values.back() == doctest::Approx(0.75));
}

}  // namespace
