// SPDX-License-Identifier: Apache-2.0
#include <raytrain/backend/lightgbm.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
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
using raytrain::testing::sample;
using raytrain::testing::StopInRound;
using raytrain::testing::TemporaryFolder;
using raytrain::testing::thrown_error;

// A model without its list of parameters, which has the number of threads.
auto trees_of(std::string const& model) -> std::string { return model.substr(0, model.find("\nparameters:")); }

// What the first split gains: it has the histograms of all rows in it.
auto first_gain(std::string const& model) -> double {
  constexpr std::string_view name = "split_gain=";
  return std::stod(model.substr(model.find(name) + name.size()));
}

TEST_CASE("the ready-made training reports every metric of every round, and keeps a model that predicts") {
  TemporaryFolder const folder;
  auto const result = LightGBMTrainer{parameters(), config(folder, 1)}.fit();
  CHECK(result.state == RunState::finished);
  REQUIRE(result.history.size() == 20);
  for (auto const* const name : {"train-binary_logloss", "train-auc", "valid-binary_logloss", "valid-auc"}) {
    CHECK(result.history.front().metrics.number(name).has_value());
  }
  CHECK(result.metrics.number("round") == 19);
  CHECK(*result.metrics.number("valid-auc") > 0.9);

  LightGBMPredictor const predictor{result.checkpoint().value()};
  auto const valid = sample(1000, 2);
  auto const predictions = predictor.predict(valid, {.label = "target"});
  REQUIRE(predictions.shape == std::vector<std::size_t>{1000});
  auto const target = valid.column("target").as<std::uint8_t>();
  double loss = 0;
  for (std::size_t row = 0; row < 1000; ++row) {
    loss -= std::log(target[row] == 1 ? predictions.values[row] : 1 - predictions.values[row]) / 1000;
  }
  CHECK(loss == doctest::Approx(*result.metrics.number("valid-binary_logloss")).epsilon(1e-4));
}

TEST_CASE("threads boost one model with the rows of all, which has the trees of one worker's, bit for bit") {
  TemporaryFolder const one;
  auto const expected = trees_of(model_of(LightGBMTrainer{parameters(), config(one, 1)}.fit()));
  for (int const workers : {2, 3}) {
    TemporaryFolder const folder;
    auto const result = LightGBMTrainer{parameters(), config(folder, workers)}.fit();
    CHECK(trees_of(model_of(result)) == expected);
    CHECK(result.history.size() == static_cast<std::size_t>(20 * workers));  // each worker reports
    CHECK(result.last_reports().size() == static_cast<std::size_t>(workers));
  }
}

TEST_CASE("distributed workers come to one model, about as good as that of one worker") {
  TemporaryFolder const one;
  auto const alone = LightGBMTrainer{parameters(), config(one, 1)}.fit();
  for (int const workers : {1, 2, 3}) {
    TemporaryFolder const folder;
    std::vector<std::string> models(static_cast<std::size_t>(workers));
    LightGBMTrainer trainer{[&](LightGBMContext& ctx) {
                              auto const params = parameters();
                              auto const train = ctx.dataset("train", params);
                              auto const valid = ctx.dataset("valid", params, &train);
                              CHECK(train.rows() == 3000 / ctx.world_size().value);
                              auto booster = ctx.booster(params, train, {{"valid", &valid}});
                              for (int round = 0; round < params.num_iterations; ++round) {
                                CHECK(booster.update());
                                Metrics metrics;
                                for (auto const& [name, value] : ctx.evaluate(booster)) metrics.set(name, value);
                                ctx.report(metrics, save(booster));
                              }
                              models[ctx.world_rank().value] = booster.to_text();
                            },
                            config(folder, workers, LightGBMMode::distributed)};
    auto const result = trainer.fit();
    for (auto const& model : models) CHECK(model == models.front());
    CHECK(model_of(result) == models.front());
    CHECK(first_gain(models.front()) == doctest::Approx(first_gain(model_of(alone))).epsilon(0.05));
    CHECK(*result.metrics.number("valid-auc") == doctest::Approx(*alone.metrics.number("valid-auc")).epsilon(0.01));
    CHECK(*result.metrics.number("train-binary_logloss") ==
          doctest::Approx(*alone.metrics.number("train-binary_logloss")).epsilon(0.05));

    TemporaryFolder const ready;
    auto const ready_made = LightGBMTrainer{parameters(), config(ready, workers, LightGBMMode::distributed)}.fit();
    CHECK(model_of(ready_made) == models.front());
    CHECK(*ready_made.metrics.number("valid-auc") == *result.metrics.number("valid-auc"));
  }
}

TEST_CASE("metrics of a dataset that is split are those of all its rows") {
  auto params = parameters(5);
  params.objective = "regression";
  params.metric = {"rmse", "l1"};
  TemporaryFolder const folder;
  auto with = config(folder, 3, LightGBMMode::distributed);
  with.datasets = {{"train", sample(1000, 1)}};
  auto const result = LightGBMTrainer{params, with}.fit();
  LightGBMPredictor const predictor{result.checkpoint().value()};
  auto const train = sample(1000, 1);
  auto const predictions = predictor.predict(train, {.label = "target"});
  auto const target = train.column("target").as<std::uint8_t>();
  double squares = 0;
  double distances = 0;
  for (std::size_t row = 0; row < 1000; ++row) {
    auto const difference = static_cast<double>(predictions.values[row]) - target[row];
    squares += difference * difference;
    distances += std::abs(difference);
  }
  for (auto const& report : result.last_reports()) {
    CHECK(*report.metrics.number("train-rmse") == doctest::Approx(std::sqrt(squares / 1000)).epsilon(1e-6));
    CHECK(*report.metrics.number("train-l1") == doctest::Approx(distances / 1000).epsilon(1e-6));
  }
}

TEST_CASE("a training that is stopped goes on with the rounds that are left, to the same model") {
  int const rounds = 100;  // so many that the stop comes before their end
  for (auto const mode : {LightGBMMode::automatic, LightGBMMode::distributed}) {
    TemporaryFolder const whole;
    auto const expected = model_of(LightGBMTrainer{parameters(rounds), config(whole, 2, mode)}.fit());
    TemporaryFolder const folder;
    auto interrupted = config(folder, 2, mode);
    interrupted.callbacks = {std::make_shared<StopInRound>(3)};
    auto const stopped = LightGBMTrainer{parameters(rounds), interrupted}.fit();
    CHECK(stopped.state == RunState::aborted);
    CHECK(*stopped.metrics.number("round") < rounds - 1);
    REQUIRE(stopped.checkpoint().has_value());
    auto const result = LightGBMTrainer{parameters(rounds), config(folder, 2, mode)}.fit();
    CHECK(result.state == RunState::finished);
    CHECK(result.metrics.number("round") == rounds - 1);
    CHECK(model_of(result) == expected);
  }
}

TEST_CASE("a model of several classes goes on with its own margins, to the same model") {
  auto params = parameters(10);
  params.objective = "multiclass";
  params.num_class = 3;
  params.metric = {"multi_logloss"};
  std::vector<float> x;
  std::vector<float> target;
  for (int i = 0; i < 900; ++i) {
    x.push_back(static_cast<float>(i % 97));
    target.push_back(static_cast<float>((i % 97 + i % 5) / 40));
  }
  auto const fit = [&](TemporaryFolder const& folder, int rounds) {
    auto with = config(folder, 1);
    with.datasets = {{"train", Dataset::from_columns({{"x", x}, {"target", target}})}};
    params.num_iterations = rounds;
    return LightGBMTrainer{params, with}.fit();
  };
  TemporaryFolder const whole;
  TemporaryFolder const folder;
  fit(folder, 4);
  auto const result = fit(folder, 10);
  CHECK(model_of(result) == model_of(fit(whole, 10)));
  LightGBMPredictor const predictor{result.checkpoint().value()};
  auto const data = Dataset::from_columns({{"x", x}});
  CHECK(predictor.predict(data).shape == std::vector<std::size_t>{900, 3});
  CHECK(predictor.predict(data, {}, PredictionType::contributions).shape == std::vector<std::size_t>{900, 3, 2});
  CHECK(predictor.predict(data, {}, PredictionType::leaf).shape == std::vector<std::size_t>{900, 30});
  params.num_class = 4;
  check_contains(thrown_error([&] { fit(folder, 20); }),
                 "LightGBMParams::num_class: is 4, and the model to go on from has 3");
}

TEST_CASE("a training that goes on draws other rows and features than it has begun with, and a forest does not go on") {
  TemporaryFolder const folder;
  auto params = parameters(4);
  params.bagging_freq = 1;
  params.bagging_fraction = 0.5;
  params.feature_fraction = 0.5;
  auto const seed_of = [&](int rounds) {
    params.num_iterations = rounds;
    auto const model = model_of(LightGBMTrainer{params, config(folder, 1)}.fit());
    auto const begin = model.find("[bagging_seed:");
    return model.substr(begin, model.find(']', begin) - begin);
  };
  auto const first = seed_of(4);
  auto const second = seed_of(8);
  CHECK(first != second);
  CHECK(seed_of(12) != second);
  params.boosting = "rf";
  params.num_iterations = 20;
  check_contains(refused(params, config(folder, 1)),
                 "LightGBMParams::boosting: is 'rf', and LightGBM does not add trees");
}

TEST_CASE("early stopping ends a training that does not become better, and a restart finds nothing left") {
  TemporaryFolder const folder;
  auto params = parameters(500);
  params.early_stopping_rounds = 5;
  params.learning_rate = 1;
  auto const result = LightGBMTrainer{params, config(folder, 1)}.fit();
  auto const last = *result.metrics.number("round");
  CHECK(last < 499);
  auto best = result.history.front().metrics;
  for (auto const& report : result.history) {
    if (*report.metrics.number("valid-auc") > *best.number("valid-auc")) best = report.metrics;
  }
  CHECK(*best.number("round") == last - 5);
  auto const again = LightGBMTrainer{params, config(folder, 1)}.fit();
  CHECK(*again.metrics.number("round") == last);
}

TEST_CASE("a training that finds nothing more to split ends with the model that it has") {
  TemporaryFolder const folder;
  auto with = config(folder, 2, LightGBMMode::distributed);
  std::vector<float> x(100);
  std::vector<float> target(100);
  for (std::size_t i = 0; i < 100; ++i) target[i] = x[i] = static_cast<float>(i % 2);
  with.datasets = {{"train", Dataset::from_columns({{"x", x}, {"target", target}})}};
  auto params = parameters(500);
  params.objective = "regression";
  params.learning_rate = 1;
  params.min_gain_to_split = 1e-9;
  params.metric = {"l2"};
  auto const result = LightGBMTrainer{params, with}.fit();
  CHECK(result.state == RunState::finished);
  CHECK(*result.metrics.number("round") < 10);
  CHECK(*result.metrics.number("train-l2") < 1e-9);
  CHECK_FALSE(model_of(result).empty());
}

TEST_CASE("an initial model is boosted further, and stored models are read back") {
  TemporaryFolder const folder;
  auto const first = LightGBMTrainer{parameters(5), config(folder, 1)}.fit();
  LightGBMPredictor const predictor{first.checkpoint().value()};
  auto const valid = sample(50, 3);
  auto const path = folder.path() / "model.txt";
  predictor.save_model(path);
  CHECK(LightGBMPredictor{path}.predict(valid, {.label = "target"}).values ==
        predictor.predict(valid, {.label = "target"}).values);
  TemporaryFolder const further;
  auto params = parameters(5);
  params.initial_model = path;
  auto const result = LightGBMTrainer{params, config(further, 1)}.fit();
  CHECK(result.metrics.number("round") == 9);
  TemporaryFolder const whole;
  auto const expected = LightGBMTrainer{parameters(10), config(whole, 1)}.fit();
  CHECK(trees_of(model_of(result)) == trees_of(model_of(expected)));
  CHECK(result.metrics.number("valid-binary_logloss") == expected.metrics.number("valid-binary_logloss"));
  params.initial_model = folder.path() / "none.txt";
  check_contains(refused(params, config(TemporaryFolder{}, 1)), "name a model that LightGBM has stored");
}

TEST_CASE("contributions add up to the margin, and leaves have a number in each tree") {
  TemporaryFolder const folder;
  auto const result = LightGBMTrainer{parameters(), config(folder, 1)}.fit();
  LightGBMPredictor const predictor{result.checkpoint().value()};
  auto const valid = sample(20, 4);
  auto const margins = predictor.predict(valid, {.label = "target"}, PredictionType::margin);
  auto const contributions = predictor.predict(valid, {.label = "target"}, PredictionType::contributions);
  REQUIRE(contributions.shape == std::vector<std::size_t>{20, 5});  // four features and the bias
  for (std::size_t row = 0; row < 20; ++row) {
    float sum = 0;
    for (std::size_t i = 0; i < 5; ++i) sum += contributions.values[row * 5 + i];
    CHECK(sum == doctest::Approx(margins.values[row]).epsilon(1e-3));
  }
  CHECK(predictor.predict(valid, {.label = "target"}, PredictionType::leaf).shape == std::vector<std::size_t>{20, 20});
  for (auto const* const kind : {"split", "gain"}) {
    auto const importance = predictor.feature_importance(kind);
    CHECK(importance.at("x_0") > (importance.contains("noise") ? importance.at("noise") : 0));
  }
  check_contains(thrown_error([&] { (void)predictor.feature_importance("weight"); }), "there is no kind 'weight'");
  check_contains(
      thrown_error([&] { (void)predictor.predict(valid, {.label = "target"}, PredictionType::interactions); }),
      "LightGBM does not compute interactions");
  check_contains(thrown_error([&] { (void)predictor.predict(valid); }), "The number of features in data (5)");
}

TEST_CASE("a predictor says the same on several threads at once") {
  TemporaryFolder const folder;
  auto const result = LightGBMTrainer{parameters(), config(folder, 1)}.fit();
  LightGBMPredictor const predictor{result.checkpoint().value()};
  auto const valid = sample(500, 4);
  auto const expected = predictor.predict(valid, {.label = "target"}).values;
  std::vector<int> same(4);
  std::vector<std::thread> threads;
  for (auto& mine : same) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) mine += predictor.predict(valid, {.label = "target"}).values == expected ? 1 : 0;
    });
  }
  for (auto& thread : threads) thread.join();
  for (int const mine : same) CHECK(mine == 20);
}

TEST_CASE("a worker that fails between rounds ends the others at once, and is the one that is named") {
  TemporaryFolder const folder;
  LightGBMTrainer trainer{[&](LightGBMContext& ctx) {
                            auto const params = parameters();
                            auto const train = ctx.dataset("train", params);
                            auto booster = ctx.booster(params, train);
                            for (int round = 0; round < 10; ++round) {
                              if (round == 3 && ctx.world_rank() == Rank{1}) throw std::runtime_error{"as planned"};
                              booster.update();
                            }
                          },
                          config(folder, 3)};
  auto const text = thrown_error([&] { trainer.fit(); });
  check_contains(text, "rank 1 on ");
  check_contains(text, "as planned");
  CHECK(text.find("rank 0 on") == std::string::npos);
  CHECK(text.find("rank 2 on") == std::string::npos);
}

TEST_CASE("a worker that fails is the one that is named also where the others wait for it in LightGBM's network") {
  TemporaryFolder const folder;
  LightGBMTrainer trainer{
      [&](LightGBMContext& ctx) {
        auto params = parameters();
        if (ctx.world_rank() == Rank{2}) {
          ctx.connect();
          (void)ctx.all_gather(std::string{"4 features (x_0, x_1, x_2, noise)"});  // as `dataset` does
          throw std::runtime_error{"as planned"};
        }
        (void)ctx.dataset("train", params);
      },
      config(folder, 3)};
  auto const text = thrown_error([&] { trainer.fit(); });
  check_contains(text, "rank 2 on ");
  check_contains(text, "as planned");
  CHECK(text.find("rank 0 on") == std::string::npos);
}

}  // namespace
