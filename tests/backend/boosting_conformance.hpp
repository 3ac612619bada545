// SPDX-License-Identifier: Apache-2.0
// What every backend that boosts trees must do, written once. A test program names its libraries:
//   TEST_CASE_TEMPLATE_INVOKE(boosting_conformance, XGBoostLibrary);
// What users get wrong with it is in boosting_bad_input.hpp.
// A library has
//   Backend, Predictor            its types;
//   params_name, rounds_name, rate_name, metric, ranking_metric, importance
//                                 how it calls its parameters, two of them, a loss, a metric of queries, and how often
//                                 a feature splits;
//   parameters(rounds)            of the ready-made training on `sample`, with the metrics `metric` and "auc";
//   rounds(params), rate(params)  those two parameters;
//   draw_columns(params)          makes each tree grow on one or two of the four features;
//   other_objective(params), several_classes(params), rank_queries(params)
//                                 set the objective, and what goes with it;
//   name_no_metric(params)        leaves nothing to evaluate;
//   train_labels(ctx, params)     of this worker's rows of "train", as the library has them;
//   boost(ctx, params, before)    the training as a user writes it by hand, with before(round); its model;
//   trees(model)                  what of a stored model equal trainings have in common;
//   model_file, model_name        of a checkpoint's model, and of one that a predictor stores;
//   best_of(path)                 a predictor from the best rounds of one that such a predictor has stored.
#pragma once

#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/backend/boosting/boosting_context.hpp>
#include <raytrain/backend/boosting/predictions.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/preprocess/chain.hpp>
#include <raytrain/preprocess/min_max_scaler.hpp>
#include <raytrain/preprocess/preprocessor_json.hpp>
#include <raytrain/trainer.hpp>

#include "../support/temporary_folder.hpp"
#include "../support/thrown_error.hpp"
#include "boosting_samples.hpp"

namespace raytrain::testing {

/// Runs of one library.
template <class Library>
struct BoostingRuns {
  using Backend = typename Library::Backend;
  using Params = typename Backend::Params;
  using Context = typename Backend::Context;
  using Predictor = typename Library::Predictor;
  using Config = TrainerConfig<Backend>;

  static constexpr int rounds = 10;

  static auto config(TemporaryFolder const& folder, int workers, BoostingMode mode = BoostingMode::automatic)
      -> Config {
    return boosting_config<Backend>(folder, workers, mode);
  }
  static auto fit(Params const& params, Config const& with) -> Result { return Trainer<Backend>{params, with}.fit(); }
  static auto refused(Params const& params, Config const& with) -> std::string {
    return thrown_error([&] { fit(params, with); });
  }
  static auto model_of(Result const& result) -> std::string {
    return Library::trees(std::string{text_of(result.checkpoint().value().read(Library::model_file))});
  }
  /// Of a run in a folder that is gone with it.
  static auto model_of(Params const& params, int workers, BoostingMode mode = BoostingMode::automatic) -> std::string {
    TemporaryFolder const folder;
    return model_of(fit(params, config(folder, workers, mode)));
  }
  static auto predicted(Predictor const& predictor, std::size_t rows, PredictionType type = PredictionType::value)
      -> Predictions {
    return predictor.predict(sample(rows, 2), {.label = "target"}, type);
  }
};

TEST_CASE_TEMPLATE_DEFINE("a backend that boosts trees", Library, boosting_conformance) {
  using Runs = BoostingRuns<Library>;
  using Context = typename Runs::Context;
  using Predictor = typename Runs::Predictor;
  constexpr auto rounds = Runs::rounds;
  auto const params = Library::parameters(rounds);
  std::string const loss = Library::metric;
  TemporaryFolder const folder;

  SUBCASE("reports every metric of every round, and keeps a model that predicts") {
    auto const result = Runs::fit(params, Runs::config(folder, 1));
    CHECK(result.state == RunState::finished);
    REQUIRE(result.history.size() == rounds);
    for (auto const& name : {"train-" + loss, "valid-" + loss, std::string{"train-auc"}, std::string{"valid-auc"}}) {
      CHECK(result.history.front().metrics.number(name).has_value());
    }
    CHECK(result.metrics.number("round") == rounds - 1);
    CHECK(*result.metrics.number("valid-auc") > 0.9);

    Predictor const predictor{result.checkpoint().value()};
    auto const predictions = Runs::predicted(predictor, 1000);
    REQUIRE(predictions.shape == std::vector<std::size_t>{1000});
    auto const valid = sample(1000, 2);
    auto const target = valid.column("target").template as<std::uint8_t>();
    double sum = 0;
    for (std::size_t row = 0; row < 1000; ++row) {
      sum -= std::log(target[row] == 1 ? predictions.values[row] : 1 - predictions.values[row]) / 1000;
    }
    CHECK(sum == doctest::Approx(*result.metrics.number("valid-" + loss)).epsilon(1e-4));
  }

  SUBCASE("learns from rows that a preprocessor has made, and predicts rows as they were read") {
    for (int const workers : {1, 2}) {
      TemporaryFolder const own;
      auto with = Runs::config(own, workers);
      with.preprocessor = MinMaxScaler{{"x", "noise"}, {5, 6}};
      auto const result = Runs::fit(params, with);
      Predictor const predictor{result.checkpoint().value()};
      auto const of_read = Runs::predicted(predictor, 1000).values;
      auto const prepared = load_preprocessor(*result.checkpoint()).transform(sample(1000, 2));
      Predictor const of_model_alone{result.checkpoint().value(), {.preprocessor = Chain{}}};
      CHECK(of_read == of_model_alone.predict(prepared, {.label = "target"}).values);
      CHECK(of_read != Runs::predicted(of_model_alone, 1000).values);
      double right = 0;
      auto const valid = sample(1000, 2);
      auto const target = valid.column("target").template as<std::uint8_t>();
      for (std::size_t row = 0; row < 1000; ++row) right += (of_read[row] > 0.5) == (target[row] == 1) ? 1 : 0;
      CHECK(right > 850);
    }
  }

  SUBCASE("boosts one model on threads with the rows of all, which is that of one worker, bit for bit") {
    auto const expected = Runs::model_of(params, 1);
    for (int const workers : {2, 3}) {
      TemporaryFolder const own;
      auto const result = Runs::fit(params, Runs::config(own, workers));
      CHECK(Runs::model_of(result) == expected);
      CHECK(result.history.size() == static_cast<std::size_t>(rounds));  // the one worker that there is reports
      CHECK(result.last_reports.size() == 1);
    }
  }

  SUBCASE("comes to one model on distributed workers, about as good as that of one worker") {
    auto const alone = Runs::fit(params, Runs::config(folder, 1));
    for (int const workers : {2, 3}) {
      TemporaryFolder const own;
      std::vector<std::string> models(static_cast<std::size_t>(workers));
      Trainer<typename Library::Backend> trainer{
          [&](Context& ctx) { models[ctx.world_rank().value] = Library::boost(ctx, params, [](int) {}); },
          Runs::config(own, workers, BoostingMode::distributed)};
      auto const result = trainer.fit();
      for (auto const& model : models) CHECK(model == models.front());
      CHECK(Runs::model_of(result) == Library::trees(models.front()));
      CHECK(Runs::model_of(result) != Runs::model_of(alone));
      CHECK(*result.metrics.number("valid-auc") == doctest::Approx(*alone.metrics.number("valid-auc")).epsilon(0.01));

      TemporaryFolder const ready;
      auto const ready_made = Runs::fit(params, Runs::config(ready, workers, BoostingMode::distributed));
      CHECK(*ready_made.metrics.number("train-" + loss) ==
            doctest::Approx(*alone.metrics.number("train-" + loss)).epsilon(0.05));
      CHECK(*ready_made.metrics.number("valid-" + loss) == *result.metrics.number("valid-" + loss));
    }
  }

  SUBCASE("goes on with the rounds that are left when it was stopped, to the same model") {
    auto const many = Library::parameters(100);  // so many that the stop comes before their end
    for (auto const mode : {BoostingMode::automatic, BoostingMode::distributed}) {
      TemporaryFolder const own;
      auto interrupted = Runs::config(own, 2, mode);
      interrupted.callbacks = {std::make_shared<StopInRound>(3)};
      auto const stopped = Runs::fit(many, interrupted);
      CHECK(stopped.state == RunState::aborted);
      CHECK(*stopped.metrics.number("round") < 99);
      REQUIRE(stopped.checkpoint().has_value());
      auto const result = Runs::fit(many, Runs::config(own, 2, mode));
      CHECK(result.state == RunState::finished);
      CHECK(result.metrics.number("round") == 99);
      CHECK(Runs::model_of(result) == Runs::model_of(many, 2, mode));
    }
  }

  SUBCASE("boosts again in the same fit() when a worker has failed in the middle of a round") {
    for (auto const mode : {BoostingMode::automatic, BoostingMode::distributed}) {
      TemporaryFolder const own;
      auto with = Runs::config(own, 2, mode);
      with.run.failure = {.max_failures = 1};
      Trainer<typename Library::Backend> trainer{
          [&](Context& ctx) {
            (void)Library::boost(ctx, params, [&](int round) {
              if (round == rounds / 2 && ctx.attempt() == Attempt{1} && ctx.world_rank() == Rank{0}) {
                throw std::runtime_error{"as planned"};
              }
            });
          },
          with};
      auto const result = trainer.fit();
      CHECK(result.state == RunState::finished);
      CHECK(result.attempts.size() == 2);
    }
  }

  SUBCASE("goes on with another number of workers, to the same model") {
    auto half = params;
    Library::rounds(half) = rounds / 2;
    (void)Runs::fit(half, Runs::config(folder, 3));
    auto const result = Runs::fit(params, Runs::config(folder, 2));
    CHECK(result.metrics.number("round") == rounds - 1);
    CHECK(Runs::model_of(result) == Runs::model_of(params, 1));
  }

  SUBCASE("draws other columns after each resume than it has begun with") {
    auto drawn = params;
    Library::draw_columns(drawn);
    Result result;
    for (int round = 1; round <= 12; ++round) {
      Library::rounds(drawn) = round;
      result = Runs::fit(drawn, Runs::config(folder, 1));
    }
    CHECK(result.metrics.number("round") == 11);
    CHECK(Predictor{result.checkpoint().value()}.feature_importance(Library::importance).size() > 2);
  }

  SUBCASE("takes every seed, and draws by it") {
    auto drawn = params;
    Library::draw_columns(drawn);
    std::map<std::string, std::uint64_t> models;
    for (auto const seed : {std::uint64_t{0}, std::uint64_t{1} << 63U, std::numeric_limits<std::uint64_t>::max()}) {
      TemporaryFolder const own;
      auto with = Runs::config(own, 1);
      with.run.seed = seed;
      models[Runs::model_of(Runs::fit(drawn, with))] = seed;
    }
    CHECK(models.size() > 1);
  }

  SUBCASE("stops early when it does not become better, finds nothing left then, and predicts from its best rounds") {
    auto early = Library::parameters(500);
    Library::rate(early) = 1;
    early.early_stopping_rounds = 5;
    auto const result = Runs::fit(early, Runs::config(folder, 1));
    auto const last = *result.metrics.number("round");
    CHECK(last < 499);
    auto best = result.history.front().metrics;
    for (auto const& report : result.history) {
      if (*report.metrics.number("valid-auc") > *best.number("valid-auc")) best = report.metrics;
    }
    CHECK(*best.number("round") == last - 5);
    CHECK(*Runs::fit(early, Runs::config(folder, 1)).metrics.number("round") == last);

    auto fewer = early;
    fewer.early_stopping_rounds = 0;
    Library::rounds(fewer) = static_cast<int>(last) - 5 + 1;
    TemporaryFolder const other;
    auto const to_best = Runs::fit(fewer, Runs::config(other, 1));
    auto const expected = Runs::predicted(Predictor{to_best.checkpoint().value()}, 50).values;
    Predictor const predictor{result.checkpoint().value(), {.rounds = PredictedRounds::best}};
    CHECK(Runs::predicted(predictor, 50).values == expected);
    CHECK(Runs::predicted(Predictor{result.checkpoint().value()}, 50).values != expected);
    auto const path = folder.path() / Library::model_name;
    predictor.save_model(path);
    CHECK(Runs::predicted(Library::best_of(path), 50).values == expected);
    check_contains(thrown_error([&] {
                     return Predictor{to_best.checkpoint().value(), {.rounds = PredictedRounds::best}};
                   }),
                   "PredictorOptions::rounds: is best, and the model has no best round; train it with "
                   "early_stopping_rounds, or predict by PredictedRounds::all");
  }

  SUBCASE("boosts an initial model further, and reads stored models back") {
    auto const first = Runs::fit(Library::parameters(5), Runs::config(folder, 1));
    Predictor const predictor{first.checkpoint().value()};
    auto further = Library::parameters(5);
    further.initial_model = folder.path() / Library::model_name;
    predictor.save_model(further.initial_model);
    CHECK(Runs::predicted(Predictor{further.initial_model}, 50).values == Runs::predicted(predictor, 50).values);
    TemporaryFolder const own;
    TemporaryFolder const whole;
    auto const result = Runs::fit(further, Runs::config(own, 1));
    CHECK(result.metrics.number("round") == 9);
    CHECK(result.metrics.number("valid-" + loss) ==
          Runs::fit(params, Runs::config(whole, 1)).metrics.number("valid-" + loss));

    auto const rest_of = [](std::ifstream&& file) { return std::string{std::istreambuf_iterator<char>{file}, {}}; };
    auto const first_model = rest_of(std::ifstream{further.initial_model, std::ios::binary});
    std::ifstream old{further.initial_model, std::ios::binary};
    Predictor{result.checkpoint().value()}.save_model(further.initial_model);
    CHECK(rest_of(std::move(old)) == first_model);  // who reads the file that was there reads it to its end
    CHECK(rest_of(std::ifstream{further.initial_model, std::ios::binary}).size() > first_model.size());
    check_contains(thrown_error([&] { predictor.save_model(folder.path() / "none" / Library::model_name); }),
                   "; name a file that can be written");

    further.initial_model = folder.path() / "none";
    check_contains(Runs::refused(further, Runs::config(TemporaryFolder{}, 1)), "there is no such file; name a model");
  }

  SUBCASE("boosts another run's model further by as many rounds as are asked for, and stops it early anew") {
    auto early = Library::parameters(500);
    Library::rate(early) = 1;
    early.early_stopping_rounds = 5;
    auto const base = Runs::fit(early, Runs::config(folder, 1));
    auto const last = *base.metrics.number("round");
    TemporaryFolder const own;
    auto with = Runs::config(own, 1);
    with.run.resume_from_checkpoint = base.checkpoint().value();
    auto const further = Runs::fit(early, with);
    CHECK(further.history.front().metrics.number("round") == last + 1);
    CHECK(further.history.size() > 5);
    CHECK(Runs::fit(early, with).nothing_left);
    auto by_file = early;
    by_file.initial_model = folder.path() / Library::model_name;
    Predictor{base.checkpoint().value()}.save_model(by_file.initial_model);
    TemporaryFolder const third;
    auto const of_file = Runs::fit(by_file, Runs::config(third, 1));
    CHECK(of_file.history.size() > 5);
    CHECK(of_file.history.front().metrics.number("round") == last + 1);

    TemporaryFolder const whole;
    TemporaryFolder const half;
    TemporaryFolder const tuned;
    with = Runs::config(tuned, 1);
    with.run.resume_from_checkpoint = Runs::fit(Library::parameters(5), Runs::config(half, 1)).checkpoint().value();
    auto const result = Runs::fit(Library::parameters(5), with);
    CHECK(result.metrics.number("round") == 9);
    CHECK(result.history.size() == 5);
    CHECK(*result.metrics.number("valid-" + loss) ==
          doctest::Approx(*Runs::fit(params, Runs::config(whole, 1)).metrics.number("valid-" + loss)));
    CHECK(Runs::fit(Library::parameters(5), with).nothing_left);
  }

  SUBCASE("gives contributions that add up to the margin, a leaf in each tree, and the importance of features") {
    auto const result = Runs::fit(params, Runs::config(folder, 1));
    Predictor const predictor{result.checkpoint().value()};
    auto const margins = Runs::predicted(predictor, 20, PredictionType::margin);
    auto const contributions = Runs::predicted(predictor, 20, PredictionType::contributions);
    REQUIRE(contributions.shape == std::vector<std::size_t>{20, 5});  // four features and the bias
    for (std::size_t row = 0; row < 20; ++row) {
      float sum = 0;
      for (std::size_t i = 0; i < 5; ++i) sum += contributions.values[row * 5 + i];
      CHECK(sum == doctest::Approx(margins.values[row]).epsilon(1e-3));
    }
    CHECK(Runs::predicted(predictor, 20, PredictionType::leaf).shape == std::vector<std::size_t>{20, rounds});
    for (std::string const kind : {Library::importance, "gain"}) {
      auto const importance = predictor.feature_importance(kind);
      CHECK(importance.at("x_0") > (importance.contains("noise") ? importance.at("noise") : 0));
    }
  }

  SUBCASE("predicts the same on several threads at once") {
    auto const result = Runs::fit(params, Runs::config(folder, 1));
    Predictor const predictor{result.checkpoint().value()};
    auto const expected = Runs::predicted(predictor, 500).values;
    std::vector<int> same(4);
    std::vector<std::thread> threads;
    for (auto& mine : same) {
      threads.emplace_back([&] {
        for (int i = 0; i < 10; ++i) mine += Runs::predicted(predictor, 500).values == expected ? 1 : 0;
      });
    }
    for (auto& thread : threads) thread.join();
    CHECK(same == std::vector<int>(4, 10));
  }

  SUBCASE("ends the others at once when a worker fails between rounds, and names that one") {
    Trainer<typename Library::Backend> trainer{[&](Context& ctx) {
                                                 (void)Library::boost(ctx, params, [&](int round) {
                                                   if (round == 3 && ctx.world_rank() == Rank{1})
                                                     throw std::runtime_error{"as planned"};
                                                 });
                                               },
                                               Runs::config(folder, 3)};
    auto const text = thrown_error([&] { trainer.fit(); });
    check_contains(text, "rank 1 on ");
    check_contains(text, "as planned");
    CHECK(text.find("rank 0 on") == std::string::npos);
    CHECK(text.find("rank 2 on") == std::string::npos);
  }

  SUBCASE("begins nothing in the library on any worker once one has failed") {
    std::atomic<int> before = 0;
    std::atomic<int> behind = 0;
    Trainer<typename Library::Backend> trainer{[&](Context& ctx) {
                                                 ctx.together([&] { ++before; });
                                                 if (ctx.world_rank() == Rank{1})
                                                   throw std::runtime_error{"as planned"};
                                                 ctx.together([&] { ++behind; });
                                               },
                                               Runs::config(folder, 3)};
    check_contains(thrown_error([&] { trainer.fit(); }), "as planned");
    CHECK(before.load() == 3);
    CHECK(behind.load() == 0);
  }

  SUBCASE("ranks queries, whose rows must lie together") {
    auto ranking = params;
    Library::rank_queries(ranking);
    auto with = Runs::config(folder, 1);
    with.datasets = {{"train", queries(false)}};
    CHECK(*Runs::fit(ranking, with).metrics.number(Library::ranking_metric) > 0.9);
    with.datasets = {{"train", queries(true)}};
    with.run.resume = Resume::fresh;
    check_contains(Runs::refused(ranking, with), "rows of one group in the column 'query' do not lie together");
  }

  SUBCASE("gives each distributed worker whole queries, and every query to one") {
    auto ranking = params;
    Library::rank_queries(ranking);
    for (int const workers : {2, 3, 7}) {
      TemporaryFolder const own;
      auto with = Runs::config(own, workers, BoostingMode::distributed);
      with.datasets = {{"train", numbered_queries()}};
      std::vector<std::vector<float>> of_workers(static_cast<std::size_t>(workers));
      Trainer<typename Library::Backend> trainer{
          [&](Context& ctx) { of_workers[ctx.world_rank().value] = Library::train_labels(ctx, ranking); }, with};
      trainer.fit();
      std::vector<float> all;
      for (auto const& labels : of_workers) {
        REQUIRE_FALSE(labels.empty());
        if (!all.empty()) CHECK(labels.front() != all.back());
        all.insert(all.end(), labels.begin(), labels.end());
      }
      auto const expected = numbered_queries();
      auto const numbers = expected.column("target").template as<float>();
      CHECK(all == std::vector<float>{numbers.begin(), numbers.end()});
    }
    TemporaryFolder const own;
    auto with = Runs::config(own, 7, BoostingMode::distributed);
    with.datasets = {{"train", queries(false)}, {"valid", queries(false)}};  // which all workers have
    CHECK(*Runs::fit(ranking, with).metrics.number(Library::ranking_metric) > 0.9);

    with = Runs::config(folder, 8, BoostingMode::distributed);
    with.datasets = {{"train", numbered_queries()}};
    check_contains(Runs::refused(ranking, with),
                   "dataset 'train': 7 groups of the column 'query' cannot be divided among 8 workers; use at most 7 ");
  }
}

}  // namespace raytrain::testing
