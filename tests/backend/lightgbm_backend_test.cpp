// SPDX-License-Identifier: Apache-2.0
#include <raytrain/backend/lightgbm.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/backend/lightgbm/lightgbm_predictor.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/dataset_blocks.hpp>
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
using raytrain::testing::TemporaryFolder;
using raytrain::testing::thrown_error;

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
  for (auto const& report : result.last_reports) {
    CHECK(*report.metrics.number("train-rmse") == doctest::Approx(std::sqrt(squares / 1000)).epsilon(1e-6));
    CHECK(*report.metrics.number("train-l1") == doctest::Approx(distances / 1000).epsilon(1e-6));
  }
}

TEST_CASE("a gamma deviance of a dataset that is split is that of all its rows") {
  auto params = parameters(5);
  params.objective = "gamma";
  params.metric = {"gamma_deviance"};
  std::vector<float> x;
  std::vector<float> target;
  for (int i = 0; i < 1000; ++i) {
    x.push_back(static_cast<float>(i % 37));
    target.push_back(static_cast<float>(1 + i % 37 + i % 5));
  }
  auto const data = Dataset::from_columns({{"x", x}, {"target", target}});
  TemporaryFolder const folder;
  auto with = config(folder, 3, LightGBMMode::distributed);
  with.datasets = {{"train", data}, {"whole", data}};
  auto const result = LightGBMTrainer{params, with}.fit();
  auto const predictions = LightGBMPredictor{result.checkpoint().value()}.predict(data, {.label = "target"});
  double sum = 0;
  for (std::size_t row = 0; row < 1000; ++row) {
    auto const ratio = static_cast<double>(target[row]) / static_cast<double>(predictions.values[row]);
    sum += 2 * (ratio - std::log(ratio) - 1);
  }
  for (auto const& report : result.last_reports) {
    CHECK(*report.metrics.number("train-gamma_deviance") == doctest::Approx(sum).epsilon(1e-5));
    CHECK(*report.metrics.number("whole-gamma_deviance") == doctest::Approx(sum).epsilon(1e-5));
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
                 "LightGBMParams::num_class: is 4, and the model to go on from has 3; choose another RunConfig::name, "
                 "or start anew by RunConfig::resume = Resume::fresh");
  TemporaryFolder const own;
  auto with = config(own, 1);
  with.datasets = {{"train", Dataset::from_columns({{"x", x}, {"target", target}})}};
  with.run.resume_from_checkpoint = result.checkpoint().value();
  check_contains(refused(params, with),
                 "has 3; set it as the model has it, or name another one by RunConfig::resume_from_checkpoint");
  with.run.resume_from_checkpoint = {};
  params.initial_model = own.path() / "model.txt";
  predictor.save_model(params.initial_model);
  check_contains(refused(params, with),
                 "has 3; set it as the model has it, or name another one by LightGBMParams::initial_model");
}

TEST_CASE("rules of LightGBM's own early stopping are refused, since it is not what stops a training") {
  TemporaryFolder const folder;
  for (auto const& [rule, value] :
       std::map<std::string, std::string>{{"first_metric_only", "true"}, {"early_stopping_min_delta", "0.1"}}) {
    auto params = parameters();
    params.early_stopping_rounds = 5;
    params.params = {{rule, value}};
    check_contains(refused(params, config(folder, 1)),
                   "invalid_config: LightGBMParams::params: holds '" + rule +
                       "', a rule of LightGBM's own early stopping, which is not used; leave it out: ");
  }
}

TEST_CASE("a random forest does not go on") {
  TemporaryFolder const folder;
  auto params = parameters(2);
  params.bagging_freq = 1;
  params.bagging_fraction = 0.5;
  params.boosting = "rf";
  auto const result = LightGBMTrainer{params, config(folder, 1)}.fit();
  params.num_iterations = 4;
  check_contains(refused(params, config(folder, 1)),
                 "LightGBMParams::boosting: is 'rf', and LightGBM does not add trees to a forest that is there; start "
                 "anew by RunConfig::resume = Resume::fresh, with all of num_iterations at once");
  TemporaryFolder const own;
  auto with = config(own, 1);
  with.run.resume_from_checkpoint = result.checkpoint().value();
  check_contains(refused(params, with),
                 "start anew without RunConfig::resume_from_checkpoint, with all of num_iterations at once");
  with.run.resume_from_checkpoint = {};
  params.initial_model = own.path() / "model.txt";
  LightGBMPredictor{result.checkpoint().value()}.save_model(params.initial_model);
  check_contains(refused(params, with),
                 "start anew without LightGBMParams::initial_model, with all of num_iterations at once");
}

/// Of two workers, which have learnt all after a round.
auto soon_learnt(TemporaryFolder const& folder) -> std::pair<LightGBMParams, TrainerConfig<LightGBMBackend>> {
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
  return {params, with};
}

TEST_CASE("a training that finds nothing more to split ends with the model that it has") {
  TemporaryFolder const folder;
  auto const [params, with] = soon_learnt(folder);
  auto const result = LightGBMTrainer{params, with}.fit();
  CHECK(result.state == RunState::finished);
  CHECK(*result.metrics.number("round") < 10);
  CHECK(*result.metrics.number("train-l2") < 1e-9);
  CHECK_FALSE(model_of(result).empty());
}

TEST_CASE("a training that has found nothing more to split says so once, and looks again at each start") {
  TemporaryFolder const folder;
  auto [params, with] = soon_learnt(folder);
  auto const first = LightGBMTrainer{params, with}.fit();
  for (int start = 0; start < 2; ++start) {
    auto const again = LightGBMTrainer{params, with}.fit();
    CHECK(again.state == RunState::finished);
    CHECK(again.nothing_left);
    CHECK(again.history.size() == first.history.size());
    CHECK(model_of(again) == model_of(first));
  }
  TemporaryFolder const none;
  auto nothing = with;
  nothing.run.storage_path = none.path();
  nothing.datasets = {
      {"train", Dataset::from_columns({{"x", std::vector<float>(100)}, {"target", std::vector<float>(100, 1)}})}};
  for (int start = 0; start < 2; ++start) CHECK(LightGBMTrainer{params, nothing}.fit().history.size() == 1);

  TemporaryFolder const further;
  auto other = with;
  other.run.storage_path = further.path();
  other.run.resume_from_checkpoint = first.checkpoint().value();
  CHECK(LightGBMTrainer{params, other}.fit().history.size() == 1);
  CHECK(LightGBMTrainer{params, other}.fit().history.size() == 1);

  params.min_gain_to_split = 0;
  params.min_data_in_leaf = 1;
  params.learning_rate = 0.5;
  std::vector<float> x(100);
  // Each worker has rows of each leaf: LightGBM reads before an array's begin where it has none, which no sanitizer
  // has.
  for (std::size_t i = 0; i < 100; ++i) x[i] = static_cast<float>(i / 2 % 25);
  with.datasets = {{"train", Dataset::from_columns({{"x", x}, {"target", x}})}};
  params.num_iterations = 5;
  auto const learnt = LightGBMTrainer{params, with}.fit();
  CHECK(learnt.metrics.number("round") == 4);
  CHECK(LightGBMTrainer{params, with}.fit().nothing_left);
}

TEST_CASE("a worker that fails is the one that is named also where the others wait for it in LightGBM's network") {
  TemporaryFolder const folder;
  LightGBMTrainer trainer{[&](LightGBMContext& ctx) {
                            if (ctx.world_rank() == Rank{2}) {
                              auto const failing = [rows = ctx.dataset_shard("train").part()] {
                                return DatasetBlocks{"failing",
                                                     [rows, is_first = true]() mutable -> std::optional<Dataset> {
                                                       if (std::exchange(is_first, false)) return rows;
                                                       throw std::runtime_error{"as planned"};
                                                     }};
                              };
                              (void)ctx.dataset(failing, parameters());
                            }
                            (void)ctx.dataset("train", parameters());
                          },
                          config(folder, 3)};
  auto const text = thrown_error([&] { trainer.fit(); });
  check_contains(text, "rank 2 on ");
  check_contains(text, "as planned");
  CHECK(text.find("rank 0 on") == std::string::npos);
}

}  // namespace
