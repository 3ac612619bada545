// SPDX-License-Identifier: Apache-2.0
#include <raytrain/backend/xgboost.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/backend/xgboost/xgboost_predictor.hpp>
#include <raytrain/trainer.hpp>

#include "../support/temporary_folder.hpp"
#include "../support/thrown_error.hpp"
#include "boosting_samples.hpp"
#include "xgboost_refused.hpp"
#include "xgboost_run.hpp"

namespace {

using namespace raytrain;
using namespace raytrain::testing;

TEST_CASE("the ready-made training reports every metric of every round, and keeps a model that predicts") {
  TemporaryFolder const folder;
  auto const result = XGBoostTrainer{parameters(), config(folder, 1)}.fit();
  CHECK(result.state == RunState::finished);
  REQUIRE(result.history.size() == 10);
  for (auto const* const name : {"train-logloss", "train-auc", "valid-logloss", "valid-auc"}) {
    CHECK(result.history.front().metrics.number(name).has_value());
  }
  CHECK(result.metrics.number("round") == 9);
  CHECK(*result.metrics.number("valid-logloss") < *result.history.front().metrics.number("valid-logloss"));
  CHECK(*result.metrics.number("valid-auc") > 0.9);

  XGBoostPredictor const predictor{result.checkpoint().value()};
  auto const valid = sample(1000, 2);
  auto const predictions = predictor.predict(valid, {.label = "target"});
  REQUIRE(predictions.values.size() == 1000);
  auto const target = valid.column("target").as<std::uint8_t>();
  std::size_t right = 0;
  double loss = 0;
  for (std::size_t row = 0; row < 1000; ++row) {
    right += (predictions.values[row] > 0.5F) == (target[row] == 1) ? 1 : 0;
    loss -= std::log(target[row] == 1 ? predictions.values[row] : 1 - predictions.values[row]) / 1000;
  }
  CHECK(right > 850);
  CHECK(loss == doctest::Approx(*result.metrics.number("valid-logloss")).epsilon(1e-4));
}

TEST_CASE("threads boost one model with the rows of all, which is that of one worker, byte for byte") {
  TemporaryFolder const one;
  auto const expected = model_of(XGBoostTrainer{parameters(), config(one, 1)}.fit());
  for (int const workers : {2, 3}) {
    TemporaryFolder const folder;
    auto const result = XGBoostTrainer{parameters(), config(folder, workers)}.fit();
    CHECK(model_of(result) == expected);
    CHECK(result.history.size() == static_cast<std::size_t>(10 * workers));  // each worker reports
    CHECK(result.last_reports().size() == static_cast<std::size_t>(workers));
  }
}

TEST_CASE("distributed workers come to one model, about as good as that of one worker") {
  TemporaryFolder const one;
  auto const alone = XGBoostTrainer{parameters(), config(one, 1)}.fit();
  for (int const workers : {2, 3}) {
    TemporaryFolder const folder;
    std::vector<std::string> models(static_cast<std::size_t>(workers));
    XGBoostTrainer trainer{[&](XGBoostContext& ctx) {
                             auto const params = parameters();
                             auto const train = ctx.dmatrix("train", {.label = "target"});
                             auto const valid = ctx.dmatrix("valid", {.label = "target"});
                             CHECK(train.rows() == 3000 / ctx.world_size().value);
                             auto booster = ctx.booster(params, {&train, &valid});
                             for (int round = 0; round < params.num_boost_round; ++round) {
                               booster.update(round, train);
                               Metrics metrics;
                               for (auto const& [name, value] : booster.evaluate(round, {{"valid", &valid}})) {
                                 metrics.set(name, value);
                               }
                               ctx.report(metrics, save(booster));
                             }
                             auto const bytes = booster.to_bytes();
                             models[ctx.world_rank().value] = std::string{text_of(bytes)};
                           },
                           config(folder, workers, XGBoostMode::distributed)};
    auto const result = trainer.fit();
    for (auto const& model : models) CHECK(model == models.front());
    CHECK(model_of(result) == models.front());
    CHECK(*result.metrics.number("valid-auc") == doctest::Approx(*alone.metrics.number("valid-auc")).epsilon(0.01));

    TemporaryFolder const ready;
    auto const ready_made = XGBoostTrainer{parameters(), config(ready, workers, XGBoostMode::distributed)}.fit();
    CHECK(*ready_made.metrics.number("valid-logloss") == *result.metrics.number("valid-logloss"));
  }
}

TEST_CASE("a training that is stopped goes on with the rounds that are left, to the same model") {
  int const rounds = 100;  // so many that the stop comes before their end
  TemporaryFolder const whole;
  auto const expected = model_of(XGBoostTrainer{parameters(rounds), config(whole, 1)}.fit());
  for (auto const mode : {XGBoostMode::automatic, XGBoostMode::distributed}) {
    TemporaryFolder const folder;
    auto interrupted = config(folder, 2, mode);
    interrupted.callbacks = {std::make_shared<StopInRound>(3)};
    auto const stopped = XGBoostTrainer{parameters(rounds), interrupted}.fit();
    CHECK(stopped.state == RunState::aborted);
    CHECK(*stopped.metrics.number("round") < rounds - 1);
    REQUIRE(stopped.checkpoint().has_value());
    auto const result = XGBoostTrainer{parameters(rounds), config(folder, 2, mode)}.fit();
    CHECK(result.state == RunState::finished);
    CHECK(result.metrics.number("round") == rounds - 1);
    if (mode == XGBoostMode::automatic) CHECK(model_of(result) == expected);
  }
}

TEST_CASE("early stopping ends a training that does not become better, and a restart finds nothing left") {
  TemporaryFolder const folder;
  auto params = parameters(200);
  params.early_stopping_rounds = 5;
  params.eta = 1;
  auto const result = XGBoostTrainer{params, config(folder, 1)}.fit();
  auto const last = *result.metrics.number("round");
  CHECK(last < 199);
  auto best = result.history.front().metrics;
  for (auto const& report : result.history) {
    if (*report.metrics.number("valid-auc") > *best.number("valid-auc")) best = report.metrics;
  }
  CHECK(*best.number("round") == last - 5);
  auto const again = XGBoostTrainer{params, config(folder, 1)}.fit();
  CHECK(*again.metrics.number("round") == last);
}

TEST_CASE("an initial model is boosted further, and stored models are read back") {
  TemporaryFolder const folder;
  auto const first = XGBoostTrainer{parameters(5), config(folder, 1)}.fit();
  XGBoostPredictor const predictor{first.checkpoint().value()};
  auto const valid = sample(50, 3);
  for (auto const* const name : {"model.json", "model.ubj"}) {
    auto const path = folder.path() / name;
    predictor.save_model(path);
    CHECK(XGBoostPredictor{path}.predict(valid, {.label = "target"}).values ==
          predictor.predict(valid, {.label = "target"}).values);
  }
  TemporaryFolder const further;
  auto params = parameters(5);
  params.initial_model = folder.path() / "model.json";
  auto const result = XGBoostTrainer{params, config(further, 1)}.fit();
  CHECK(result.metrics.number("round") == 9);
  CHECK(*result.history.front().metrics.number("train-logloss") < *first.metrics.number("train-logloss"));
  TemporaryFolder const whole;
  CHECK(result.metrics.number("valid-logloss") ==
        XGBoostTrainer{parameters(10), config(whole, 1)}.fit().metrics.number("valid-logloss"));
}

TEST_CASE("contributions add up to the margin, and leaves have a number in each tree") {
  TemporaryFolder const folder;
  auto const result = XGBoostTrainer{parameters(), config(folder, 1)}.fit();
  XGBoostPredictor const predictor{result.checkpoint().value()};
  auto const valid = sample(20, 4);
  auto const margins = predictor.predict(valid, {.label = "target"}, PredictionType::margin);
  auto const contributions = predictor.predict(valid, {.label = "target"}, PredictionType::contributions);
  REQUIRE(contributions.shape == std::vector<std::size_t>{20, 5});  // four features and the bias
  for (std::size_t row = 0; row < 20; ++row) {
    float sum = 0;
    for (std::size_t i = 0; i < 5; ++i) sum += contributions.values[row * 5 + i];
    CHECK(sum == doctest::Approx(margins.values[row]).epsilon(1e-3));
  }
  CHECK(predictor.predict(valid, {.label = "target"}, PredictionType::leaf).shape == std::vector<std::size_t>{20, 10});
  auto const importance = predictor.feature_importance("gain");
  CHECK(importance.at("x_0") > (importance.contains("noise") ? importance.at("noise") : 0));
}

TEST_CASE("a worker that fails between rounds ends the others at once, and is the one that is named") {
  TemporaryFolder const folder;
  XGBoostTrainer trainer{[&](XGBoostContext& ctx) {
                           auto const train = ctx.dmatrix("train", {.label = "target"});
                           auto booster = ctx.booster(parameters(), {&train});
                           for (int round = 0; round < 10; ++round) {
                             if (round == 3 && ctx.world_rank() == Rank{1}) throw std::runtime_error{"as planned"};
                             ctx.together([&] { booster.update(round, train); });
                           }
                         },
                         config(folder, 3)};
  auto const text = thrown_error([&] { trainer.fit(); });
  check_contains(text, "rank 1 on ");
  check_contains(text, "as planned");
  CHECK(text.find("rank 0 on") == std::string::npos);
  CHECK(text.find("rank 2 on") == std::string::npos);
}

TEST_CASE("ranking has its groups from a column, whose rows must lie together") {
  TemporaryFolder const folder;
  auto with = config(folder, 1);
  with.datasets = {{"train", queries(false)}};
  XGBoostParams params{.label = "target", .group = "query", .objective = "rank:pairwise", .eval_metric = {"ndcg"}};
  auto const result = XGBoostTrainer{params, with}.fit();
  CHECK(*result.metrics.number("train-ndcg") > 0.9);
  with.datasets = {{"train", queries(true)}};
  with.run.resume = Resume::fresh;
  check_contains(refused(params, with), "rows of one group in the column 'query' do not lie together");
}

}  // namespace
