// SPDX-License-Identifier: Apache-2.0
#include <raytrain/backend/lightgbm.hpp>

#include <cmath>
#include <cstdint>
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
using raytrain::testing::queries;
using raytrain::testing::refused;
using raytrain::testing::TemporaryFolder;
using raytrain::testing::thrown_error;

TEST_CASE("parameters that cannot be are refused") {
  TemporaryFolder const folder;
  auto const with = config(folder, 2);
  auto params = parameters();
  params.num_iterations = 0;
  CHECK(refused(params, with) ==
        "invalid_config: LightGBMParams::num_iterations: must be at least 1 (got 0); write a larger one");
  params = parameters();
  params.params = {{"max_dpeth", "3"}};
  check_contains(refused(params, with), "LightGBMParams::params: LightGBM says: Unknown parameter: max_dpeth");
  params.params = {{"max_depth", "3"}};
  check_contains(refused(params, with), "LightGBMParams::params: holds 'max_depth', which is a field of its own");
  params.params = {{"shrinkage_rate", "0.3"}};
  check_contains(refused(params, with), "shrinkage_rate=0.3 will be ignored");
  params.params = {{"monotone_constraints", "1, 0"}};
  check_contains(refused(params, with), "LightGBM's parameter 'monotone_constraints=1, 0': has a space");
  params.params = {{"tree_learner", "sideways"}};
  check_contains(refused(params, with), "sideways");
  params = parameters();
  params.objective = "binray";
  check_contains(refused(params, with), "binray");
  params = parameters();
  params.label = "targte";
  check_contains(refused(params, with),
                 "column 'targte': is not in the dataset, which has x (float32, 3), noise (int32, scalar), target");
}

TEST_CASE("data that cannot be is refused with row and column") {
  TemporaryFolder const folder;
  auto with = config(folder, 2);
  auto const train_on = [&](std::vector<float> const& labels) {
    with.datasets = {{"train", Dataset::from_columns({{"x", std::vector<float>(labels.size())}, {"target", labels}})}};
  };
  train_on({0, 1, 0.5F, 1});
  check_contains(refused(parameters(), with), "row 2 of the label column 'target' is 0.5, and must be 0 or 1");
  train_on({0, 1, 1, std::nanf("")});
  check_contains(refused(parameters(), with), "row 3 of the label column 'target' is nan");
  train_on({0});
  check_contains(refused(parameters(), with), "1 rows");
  auto multi = parameters();
  multi.objective = "multiclass";
  multi.num_class = 3;
  multi.metric = {};
  train_on({0, 1, 3, 1});
  check_contains(refused(multi, with), "row 2 of the label column 'target' is 3, and must be a class from 0 to 2");
  with.datasets.clear();
  check_contains(refused(parameters(), with), "dataset 'train': is not among the run's datasets");
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

TEST_CASE("a checkpoint of another objective is refused with both") {
  TemporaryFolder const folder;
  auto const with = config(folder, 1);
  LightGBMTrainer{parameters(3), with}.fit();
  auto other = parameters(6);
  other.objective = "regression";
  check_contains(refused(other, with),
                 "LightGBMParams::objective: is 'regression', and the checkpoint's model was trained for 'binary'");
}

TEST_CASE("ranking has its groups from a column, whose rows must lie together") {
  TemporaryFolder const folder;
  auto with = config(folder, 1);
  with.datasets = {{"train", queries(false)}};
  LightGBMParams params{
      .label = "target", .group = "query", .objective = "lambdarank", .metric = {"ndcg"}, .num_iterations = 10};
  auto const result = LightGBMTrainer{params, with}.fit();
  CHECK(*result.metrics.number("train-ndcg@5") > 0.9);
  with.datasets = {{"train", queries(true)}};
  with.run.resume = Resume::fresh;
  check_contains(refused(params, with), "rows of one group in the column 'query' do not lie together");
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
