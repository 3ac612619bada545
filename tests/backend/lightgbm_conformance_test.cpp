// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/backend/lightgbm.hpp>
#include <raytrain/backend/lightgbm/lightgbm_predictor.hpp>

#include "boosting_bad_input.hpp"
#include "boosting_conformance.hpp"
#include "lightgbm_runs.hpp"

namespace raytrain::testing {

struct LightGBMLibrary {
  using Backend = LightGBMBackend;
  using Predictor = LightGBMPredictor;

  static constexpr auto params_name = "LightGBMParams";
  static constexpr auto rounds_name = "num_iterations";
  static constexpr auto rate_name = "learning_rate";
  static constexpr auto metric = "binary_logloss";
  static constexpr auto ranking_metric = "train-ndcg@5";
  static constexpr auto importance = "split";
  static constexpr auto model_file = lightgbm_file_name;
  static constexpr auto model_name = "model.txt";

  static auto parameters(int rounds) -> LightGBMParams {
    auto params = testing::parameters(rounds);
    params.learning_rate = 0.3;
    return params;
  }
  static auto rounds(LightGBMParams& params) -> int& { return params.num_iterations; }
  static auto rate(LightGBMParams& params) -> double& { return params.learning_rate; }
  static void draw_columns(LightGBMParams& params) { params.feature_fraction = 0.5; }
  static void other_objective(LightGBMParams& params) { params.objective = "regression"; }
  static void several_classes(LightGBMParams& params) {
    params.objective = "multiclass";
    params.num_class = 3;
    params.metric = {};
  }
  static void name_no_metric(LightGBMParams& params) { params.metric = {"none"}; }
  static void rank_queries(LightGBMParams& params) {
    params.group = "query";
    params.objective = "lambdarank";
    params.metric = {"ndcg"};
  }

  static auto train_labels(LightGBMContext& ctx, LightGBMParams const& params) -> std::vector<float> {
    auto const train = ctx.dataset("train", params);
    return {train.labels().begin(), train.labels().end()};
  }

  template <class Before>
  static auto boost(LightGBMContext& ctx, LightGBMParams const& params, Before const& before) -> std::string {
    auto const train = ctx.dataset("train", params);
    auto const valid = ctx.dataset("valid", params, &train);
    CHECK(train.rows() == 3000 / ctx.world_size().value);
    auto booster = ctx.booster(params, train, {{"valid", &valid}});
    for (int round = 0; round < params.num_iterations; ++round) {
      before(round);
      auto const learns = booster.update();
      CHECK(learns);
      Metrics metrics;
      for (auto const& [name, value] : ctx.evaluate(booster)) metrics.set(name, value);
      ctx.report(metrics, save(booster));
    }
    return booster.to_text();
  }
  /// Behind them is the list of parameters, which has the number of threads.
  static auto trees(std::string const& model) -> std::string { return model.substr(0, model.find("\nparameters:")); }
  /// Its text has no best round, so that those behind it are not stored.
  static auto best_of(std::filesystem::path const& model) -> LightGBMPredictor { return LightGBMPredictor{model}; }
};

TEST_CASE_TEMPLATE_INVOKE(boosting_conformance, LightGBMLibrary);
TEST_CASE_TEMPLATE_INVOKE(boosting_bad_input, LightGBMLibrary);

}  // namespace raytrain::testing
