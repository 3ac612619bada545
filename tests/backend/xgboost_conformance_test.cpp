// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/backend/xgboost.hpp>
#include <raytrain/backend/xgboost/xgboost_predictor.hpp>

#include "boosting_bad_input.hpp"
#include "boosting_conformance.hpp"
#include "xgboost_run.hpp"

namespace raytrain::testing {

struct XGBoostLibrary {
  using Backend = XGBoostBackend;
  using Predictor = XGBoostPredictor;

  static constexpr auto params_name = "XGBoostParams";
  static constexpr auto rounds_name = "num_boost_round";
  static constexpr auto rate_name = "eta";
  static constexpr auto metric = "logloss";
  static constexpr auto ranking_metric = "train-ndcg@5-";
  static constexpr auto importance = "weight";
  static constexpr auto model_file = booster_file_name;
  static constexpr auto model_name = "model.json";

  static auto parameters(int rounds) -> XGBoostParams { return testing::parameters(rounds); }
  static auto rounds(XGBoostParams& params) -> int& { return params.num_boost_round; }
  static auto rate(XGBoostParams& params) -> double& { return params.eta; }
  static void draw_columns(XGBoostParams& params) { params.colsample_bytree = 0.25; }
  static void other_objective(XGBoostParams& params) { params.objective = "reg:logistic"; }
  static void several_classes(XGBoostParams& params) {
    params.objective = "multi:softprob";
    params.num_class = 3;
    params.eval_metric = {};
  }
  static void name_no_metric(XGBoostParams& params) {
    params.eval_metric = {};
    params.params = {{"disable_default_eval_metric", "1"}};
  }
  static void rank_queries(XGBoostParams& params) {
    params.group = "query";
    params.objective = "rank:pairwise";
    params.eval_metric = {"ndcg@5-"};
  }

  static auto train_labels(XGBoostContext& ctx, XGBoostParams const& params) -> std::vector<float> {
    auto const train = ctx.dmatrix("train", {.label = params.label, .group = params.group});
    return {train.labels().begin(), train.labels().end()};
  }

  template <class Before>
  static auto boost(XGBoostContext& ctx, XGBoostParams const& params, Before const& before) -> std::string {
    auto const train = ctx.dmatrix("train", {.label = params.label});
    auto const valid = ctx.dmatrix("valid", {.label = params.label});
    CHECK(train.rows() == 3000 / ctx.world_size().value);
    auto booster = ctx.booster(params, {&train, &valid});
    for (int round = 0; round < params.num_boost_round; ++round) {
      before(round);
      ctx.together([&] { booster.update(round, train); });
      Metrics metrics;
      auto const evaluations = ctx.together([&] { return booster.evaluate(round, {{"valid", &valid}}); });
      for (auto const& [name, value] : evaluations) metrics.set(name, value);
      ctx.report(metrics, save(booster));
    }
    return std::string{text_of(booster.to_bytes())};
  }
  static auto trees(std::string const& model) -> std::string { return model; }
  static auto best_of(std::filesystem::path const& model) -> XGBoostPredictor {
    return XGBoostPredictor{model, {.rounds = PredictedRounds::best}};
  }
};

TEST_CASE_TEMPLATE_INVOKE(boosting_conformance, XGBoostLibrary);
TEST_CASE_TEMPLATE_INVOKE(boosting_bad_input, XGBoostLibrary);

}  // namespace raytrain::testing
