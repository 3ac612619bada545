// SPDX-License-Identifier: Apache-2.0
#include <raytrain/backend/xgboost.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/backend/xgboost/xgboost_predictor.hpp>
#include <raytrain/trainer.hpp>

#include "../support/temporary_folder.hpp"
#include "../support/thrown_error.hpp"
#include "xgboost_run.hpp"

namespace {

using namespace raytrain;
using namespace raytrain::testing;

constexpr std::size_t width = 3;

/// Features that matter, of which each tenth is missing.
auto features(std::size_t rows) -> std::vector<float> {
  std::mt19937 random{3};
  std::normal_distribution<float> normal;
  std::vector<float> values(rows * width);
  for (auto& value : values) {
    value = random() % 10 == 0 ? std::numeric_limits<float>::quiet_NaN() : normal(random);
  }
  return values;
}

auto target(std::vector<float> const& values) -> std::vector<std::uint8_t> {
  std::vector<std::uint8_t> target(values.size() / width);
  for (std::size_t row = 0; row < target.size(); ++row) {
    auto const* const x = values.data() + row * width;
    target[row] = x[0] * x[1] > 0 || x[2] > 1 ? 1 : 0;
  }
  return target;
}

/// All features in one column, which XGBoost reads as it lies in memory.
auto one_column(std::size_t rows) -> Dataset {
  auto const values = features(rows);
  return Dataset::from_columns({{"x", values, {width}}, {"target", target(values)}});
}

/// A column for each feature, of several types, which are put side by side.
auto several_columns(std::size_t rows) -> Dataset {
  auto const values = features(rows);
  std::vector<float> first(rows);
  std::vector<double> second(rows);
  std::vector<Float16> third(rows);
  std::vector<std::int32_t> fourth(rows);
  for (std::size_t row = 0; row < rows; ++row) {
    first[row] = values[row * width];
    second[row] = values[row * width + 1];
    third[row] = static_cast<Float16>(values[row * width + 2]);
    fourth[row] = static_cast<std::int32_t>(row % 7);
  }
  return Dataset::from_columns({{"a", first}, {"b", second}, {"c", third}, {"d", fourth}, {"target", target(values)}});
}

auto bin_parameters(int rounds = 6) -> XGBoostParams {
  return {.label = "target", .objective = "binary:logistic", .max_depth = 4, .max_bin = 64, .num_boost_round = rounds};
}

auto stored(Booster const& booster) -> std::string { return std::string{text_of(booster.to_bytes())}; }

/// What a function of one's own trains on a matrix that holds bins, or for 0 values.
auto model_on(DMatrix const& matrix) -> std::string {
  Booster booster{{&matrix}};
  for (auto const& [name, value] : bin_parameters().named()) booster.set_parameter(name, value);
  for (int round = 0; round < 6; ++round) booster.update(round, matrix);
  return stored(booster);
}

auto model_on(Dataset const& data, int max_bin) -> std::string {
  return model_on(DMatrix{data, {.label = "target", .max_bin = max_bin}});
}

auto config_on(TemporaryFolder const& folder, Dataset const& data, int workers = 1) -> TrainerConfig<XGBoostBackend> {
  return {.scaling = {.num_workers = workers, .resources_per_worker = {.cpus = 1}},
          .run = {.name = "r", .storage_path = folder.path()},
          .datasets = {{"train", data}}};
}

TEST_CASE("bins give the model that values give, byte for byte") {
  for (auto const& data : {one_column(2000), several_columns(2000)}) CHECK(model_on(data, 64) == model_on(data, 0));
}

TEST_CASE("bins that are made of several batches give the model that values give, byte for byte") {
  auto const data = several_columns(150'000);
  CHECK(model_on(data, 64) == model_on(data, 0));
}

TEST_CASE("workers that boost together make their bins together, and come to the model that values give") {
  TemporaryFolder const folder;
  std::vector<std::string> of_values(3);
  std::vector<std::string> of_bins(3);
  auto settings = config_on(folder, several_columns(3000), 3);
  settings.backend.mode = XGBoostMode::distributed;
  XGBoostTrainer trainer{[&](XGBoostContext& ctx) {
                           auto const rank = ctx.world_rank().value;
                           of_values[rank] = model_on(ctx.dmatrix("train", {.label = "target"}));
                           of_bins[rank] = model_on(ctx.dmatrix("train", {.label = "target", .max_bin = 64}));
                         },
                         settings};
  trainer.fit();
  CHECK(of_values[1] == of_values[0]);
  CHECK(of_bins == of_values);
}

TEST_CASE("a matrix of bins has all rows, names and labels") {
  auto const data = several_columns(70'000);
  DMatrix const matrix{data, {.label = "target", .features = {"d", "b"}, .max_bin = 16}};
  CHECK(matrix.rows() == 70'000);
  CHECK(matrix.feature_names() == std::vector<std::string>{"d", "b"});
  auto const labels = data.column("target").as<std::uint8_t>();
  REQUIRE(matrix.labels().size() == 70'000);
  for (std::size_t const row : {0, 65'535, 65'536, 69'999}) CHECK(matrix.labels()[row] == labels[row]);
}

TEST_CASE("bins are refused where XGBoost would ignore a part of the data or has no use for them") {
  auto const data = one_column(100);
  auto const refused = [&](DMatrixOptions const& options) { return thrown_error([&] { DMatrix{data, options}; }); };
  check_contains(refused({.label = "target", .max_bin = 1}), "DMatrixOptions::max_bin: must be at least 2 (got 1)");
  check_contains(refused({.label = "target", .max_bin = -1}), "at least 2 (got -1)");
  check_contains(refused({.weight = "target", .max_bin = 8}), "is 8, and there is a weight, a group or a categorical");
  check_contains(refused({.group = "target", .max_bin = 8}), "is 8, and there is a weight, a group or a categorical");
  check_contains(refused({.categorical = {"x"}, .max_bin = 8}),
                 "is 8, and there is a weight, a group or a categorical");
}

TEST_CASE("what goes wrong while a batch is made is the error that arrives") {
  auto const rows = features(10);
  int asked = 0;
  auto const error = thrown_error([&] {
    detail::TableBatches batches{{10, 5}, [&](std::size_t first) {
                                   if (first > 0) throw Error{Errc::io, "reading the second batch", "went wrong"};
                                   ++asked;
                                   return detail::array_interface(rows.data(), "<f4", {5, width});
                                 }};
    (void)detail::new_quantile_matrix(batches, R"({"missing": NaN, "max_bin": 8})");
  });
  check_contains(error, "reading the second batch: went wrong");
  CHECK(asked == 1);
}

TEST_CASE("the ready-made training takes bins where they give the same model, and nowhere else") {
  CHECK(bin_parameters().needs_bins_only());
  auto const with = [](auto XGBoostParams::*field, auto value) {
    auto params = bin_parameters();
    params.*field = value;
    return params;
  };
  CHECK_FALSE(with(&XGBoostParams::tree_method, "approx").needs_bins_only());
  CHECK_FALSE(with(&XGBoostParams::tree_method, "exact").needs_bins_only());
  CHECK_FALSE(with(&XGBoostParams::weight, "w").needs_bins_only());
  CHECK_FALSE(with(&XGBoostParams::group, "g").needs_bins_only());
  CHECK_FALSE(with(&XGBoostParams::categorical, std::vector<std::string>{"c"}).needs_bins_only());
  CHECK_FALSE(with(&XGBoostParams::initial_model, "model.json").needs_bins_only());
  auto params = bin_parameters();
  params.params = {{"max_leaves", "31"}};
  CHECK(params.needs_bins_only());
  params.params["booster"] = "gblinear";
  CHECK_FALSE(params.needs_bins_only());
}

TEST_CASE("every tree method trains in the ready-made training, and dart does") {
  auto const loss = [](XGBoostParams const& params) {
    TemporaryFolder const folder;
    auto const result = XGBoostTrainer{params, config_on(folder, several_columns(500))}.fit();
    return result.metrics.number("train-logloss").value_or(1);
  };
  for (auto const* const method : {"hist", "approx", "exact", "auto"}) {
    auto params = bin_parameters();
    params.tree_method = method;
    CHECK_MESSAGE(loss(params) < 0.6, method);
  }
  auto params = bin_parameters();
  params.params = {{"booster", "dart"}, {"rate_drop", "0.5"}};
  CHECK(loss(params) < 0.6);
}

TEST_CASE("a training on bins that goes on after its end comes to the model of one that was not interrupted") {
  for (auto const& data : {one_column(3000), several_columns(3000)}) {
    TemporaryFolder const whole;
    auto const expected = model_of(XGBoostTrainer{bin_parameters(8), config_on(whole, data)}.fit());
    TemporaryFolder const folder;
    (void)XGBoostTrainer{bin_parameters(3), config_on(folder, data)}.fit();
    auto const result = XGBoostTrainer{bin_parameters(8), config_on(folder, data)}.fit();
    CHECK(result.history.size() == 8);
    CHECK(result.checkpoint().value().metadata().contains("raytrain_bins"));  // which are all that it has kept
    CHECK(model_of(result) == expected);
  }
}

/// A start of a run, which boosts four rounds more than there are.
struct Start {
  int workers = 1;
  int max_bin = 64;
  std::string tree_method{"hist"};
  std::size_t rows = 3000;
};

auto boosted_further(Start const& start, std::optional<Result> const& before, TrainerConfig<XGBoostBackend> settings)
    -> Result {
  auto params = bin_parameters((before ? static_cast<int>(before->history.size()) : 0) + 4);
  params.max_bin = start.max_bin;
  params.tree_method = start.tree_method;
  settings.scaling.num_workers = start.workers;
  settings.backend.mode = XGBoostMode::distributed;
  settings.datasets = {{"train", several_columns(start.rows)}};
  return XGBoostTrainer{params, settings}.fit();
}

/// The loss of a checkpoint's model on the values of all rows.
auto loss_of(Result const& result, std::size_t rows) -> double {
  auto const data = several_columns(rows);
  auto const predictions = XGBoostPredictor{result.checkpoint().value()}.predict(data, {.label = "target"});
  auto const target = data.column("target").as<std::uint8_t>();
  double loss = 0;
  for (std::size_t row = 0; row < target.size(); ++row) {
    auto const right = target[row] == 1 ? predictions.values[row] : 1 - predictions.values[row];
    loss -= std::log(static_cast<double>(right)) / static_cast<double>(target.size());
  }
  return loss;
}

TEST_CASE("a training that goes on has the metrics of its model, whose trees may have other bins") {
  std::vector<Start> starts;
  SUBCASE("with more workers, and then with as many") { starts = {{.workers = 2}, {.workers = 3}, {.workers = 3}}; }
  SUBCASE("with as many workers as once before") {
    starts = {{.workers = 2}, {.workers = 3}, {.workers = 2}, {.workers = 2}};
  }
  SUBCASE("with fewer bins") { starts = {{.max_bin = 64}, {.max_bin = 24}}; }
  SUBCASE("with as many bins as once before") { starts = {{.max_bin = 24}, {.max_bin = 64}, {.max_bin = 24}}; }
  SUBCASE("by another method") { starts = {{.max_bin = 24, .tree_method = "exact"}, {.max_bin = 24}}; }
  SUBCASE("with other rows") { starts = {{.rows = 3000}, {.rows = 3500}}; }
  TemporaryFolder const folder;
  std::optional<Result> result;
  for (auto const& start : starts) {
    result = boosted_further(start, result, config_on(folder, several_columns(10)));
    CHECK(result->metrics.number("train-logloss").value_or(0) ==
          doctest::Approx(loss_of(*result, start.rows)).epsilon(1e-6));
  }
}

TEST_CASE("a training that began with another run's trees has the metrics of its model when it goes on") {
  TemporaryFolder const other;
  TemporaryFolder const folder;
  auto settings = config_on(folder, several_columns(10));
  settings.run.resume_from_checkpoint =
      boosted_further({.rows = 3500}, std::nullopt, config_on(other, several_columns(10))).checkpoint().value();
  std::optional<Result> result;
  for (int start = 1; start <= 3; ++start) {
    result = boosted_further({}, result, settings);
    CHECK(result->history.size() == static_cast<std::size_t>(4 * start));
    CHECK(result->metrics.number("train-logloss").value_or(0) == doctest::Approx(loss_of(*result, 3000)).epsilon(1e-6));
  }
}

}  // namespace
