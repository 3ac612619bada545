// SPDX-License-Identifier: Apache-2.0
// What XGBoost is fed block by block.
#include <raytrain/backend/xgboost.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/backend/xgboost/xgboost_predictor.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/metrics.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/dataset_blocks.hpp>
#include <raytrain/preprocess/preprocessor_json.hpp>
#include <raytrain/preprocess/standard_scaler.hpp>
#include <raytrain/train/result.hpp>
#include <raytrain/trainer.hpp>

#include "../support/temporary_folder.hpp"
#include "../support/thrown_error.hpp"
#include "boosting_blocks.hpp"
#include "xgboost_run.hpp"

namespace {

using namespace raytrain;
using namespace raytrain::testing;

auto bin_parameters() -> XGBoostParams {
  return {.label = "target", .objective = "binary:logistic", .max_depth = 4, .max_bin = 64};
}

auto stored(Booster const& booster) -> std::string { return std::string{text_of(booster.to_bytes())}; }

auto boosted(DMatrix const& matrix) -> Booster {
  Booster booster{{&matrix}};
  for (auto const& [name, value] : bin_parameters().named()) booster.set_parameter(name, value);
  booster.set_parameter("nthread", "1");
  for (int round = 0; round < 6; ++round) booster.update(round, matrix);
  return booster;
}

auto model_on(DMatrix const& matrix) -> std::string { return stored(boosted(matrix)); }

TEST_CASE("blocks give the model that the same rows in memory give, byte for byte") {
  for (bool const has_gaps : {true, false}) {
    auto const rows = rows_of(8'000, has_gaps);
    auto in_memory = DMatrixOptions{.label = "target", .features = {"c", "a", "b"}, .threads = 1};
    auto in_blocks = in_memory;
    in_blocks.max_bin = 64;
    SUBCASE("of numbers") {}
    SUBCASE("with weights") { in_memory.weight = in_blocks.weight = "w"; }
    SUBCASE("with a value that stands for none") { in_memory.missing = in_blocks.missing = 1; }
    SUBCASE("with categories") { in_memory.categorical = in_blocks.categorical = {"c"}; }
    auto const expected = model_on(DMatrix{rows, in_memory});
    for (std::size_t const each : {8'000, 3'001}) {
      CHECK(model_on(DMatrix{anew(rows, each), in_blocks}) == expected);
    }
  }
}

TEST_CASE("a block of more rows than XGBoost gets at once gives the model of the same rows in memory") {
  auto const rows = rows_of(70'000);
  DMatrix const matrix{anew(rows, 66'000), {.label = "target", .max_bin = 64}};
  CHECK(matrix.rows() == 70'000);
  CHECK(model_on(matrix) == model_on(DMatrix{rows, {.label = "target"}}));
}

TEST_CASE("a matrix of blocks has all names, labels and weights") {
  auto const rows = rows_of(5'000);
  DMatrix const matrix{anew(rows, 1'500), {.label = "target", .weight = "w", .features = {"c", "a"}}};
  CHECK(matrix.feature_names() == std::vector<std::string>{"c", "a"});
  CHECK(std::ranges::equal(matrix.labels(), rows.column("target").as<std::uint8_t>()));
  CHECK(std::ranges::equal(matrix.weights(), rows.column("w").as<float>()));
}

TEST_CASE("blocks with the bins of a reference are evaluated as their values are") {
  auto const train = rows_of(8'000);
  auto const valid = rows_of(10'000).split_at(8'000).second;
  DMatrix const of_train{anew(train, 6'000), {.label = "target", .max_bin = 64}};
  auto booster = boosted(of_train);
  DMatrix const of_blocks{anew(valid, 1'000), {.label = "target", .max_bin = 64}, &of_train};
  DMatrix const of_values{valid, {.label = "target"}};
  auto const losses = booster.evaluate(5, {{"blocks", &of_blocks}, {"values", &of_values}});
  CHECK(losses[0].value == losses[1].value);
  CHECK(losses[0].value < 0.5);
}

/// Makes a matrix of blocks.
void take(MakeBlocks const& make) { DMatrix{make, {.label = "target", .threads = 1}}; }

TEST_CASE("one block is in memory at a time") {
  check_one_block_is_in_memory([](MakeBlocks const& make) { CHECK(DMatrix{make, {}}.rows() == 9'000); }, 20);
}

TEST_CASE("what a reader throws, in whichever pass over the rows, is the error that arrives") {
  for (bool const has_gaps : {true, false}) check_error_of_reader_arrives(rows_of(4'000, has_gaps), take, 15);
}

TEST_CASE("other rows than XGBoost has seen at first are refused") { check_other_rows_are_refused("DMatrix", take); }

TEST_CASE("blocks that XGBoost cannot take are refused, with the rows that are wrong") {
  check_bad_blocks_are_refused("DMatrix", take);
  auto const rows = rows_of(4'000);
  auto infinite = std::vector<float>(10);
  infinite[3] = std::numeric_limits<float>::infinity();
  auto const endless =
      rows.head(10).drop_columns({"w"}).add_column({"w", infinite}).select_columns({"a", "b", "c", "w", "target"});
  check_contains(thrown_error([&] { take(two_blocks(rows, endless)); }),
                 "row 4003 of the feature 'w' is inf; write NaN where there is no value");
  auto const refused = [&](DMatrixOptions const& options) {
    return thrown_error([&] { DMatrix{anew(rows, 100), options}; });
  };
  check_contains(refused({.label = "target", .group = "c"}),
                 "DMatrixOptions::group: is 'c', and rows that come in blocks have no groups");
  check_contains(refused({.label = "target", .max_bin = 1}), "must be at least 2 (got 1)");
}

auto config_of(TemporaryFolder const& folder, Dataset const& rows, int workers) -> TrainerConfig<XGBoostBackend> {
  return {.scaling = {.num_workers = workers, .resources_per_worker = {.cpus = 1}},
          .run = {.name = "r", .storage_path = folder.path()},
          .datasets = {{"train", rows}},
          .backend = {.mode = XGBoostMode::distributed}};
}

TEST_CASE("workers that have blocks of their own come to the model of the same parts in memory") {
  TemporaryFolder const folder;
  std::vector<std::string> of_memory(3);
  std::vector<std::string> of_blocks(3);
  XGBoostTrainer trainer{[&](XGBoostContext& ctx) {
                           auto const rank = ctx.world_rank().value;
                           DMatrixOptions const options{.label = "target", .weight = "w", .max_bin = 64};
                           auto const part = ctx.dataset_shard("train").part();
                           of_memory[rank] = model_on(ctx.dmatrix("train", {.label = "target", .weight = "w"}));
                           of_blocks[rank] = model_on(ctx.dmatrix(anew(part, 700), options));
                         },
                         config_of(folder, rows_of(9'001), 3)};
  trainer.fit();
  CHECK(of_memory[1] == of_memory[0]);
  CHECK(of_blocks == of_memory);
}

TEST_CASE("workers that take turns with the blocks of one range have all rows, each once") {
  TemporaryFolder const folder;
  std::vector<std::size_t> rows(3);
  std::vector<float> labels;
  auto const all = rows_of(9'001);
  XGBoostTrainer trainer{[&](XGBoostContext& ctx) {
                           auto const make = [&] {
                             return blocks_of(all, 1'000).shard(ctx.world_rank(), ctx.world_size());
                           };
                           auto const matrix = ctx.dmatrix(make, {.label = "target"});
                           rows[ctx.world_rank().value] = matrix.rows();
                           auto expected = make();
                           std::size_t count = 0;
                           for (auto const& block : expected) count += block.rows();
                           CHECK(matrix.rows() == count);
                         },
                         config_of(folder, all, 3)};
  trainer.fit();
  CHECK(rows[0] + rows[1] + rows[2] == 9'001);
  CHECK(*std::ranges::min_element(rows) > 0);
}

TEST_CASE("where one worker's reader fails, the others are stopped, and the run says why") {
  for (int const call : {1, 3, 6, 9, 15, 19}) {
    TemporaryFolder const folder;
    std::vector<int> trained(3);
    XGBoostTrainer trainer{[&](XGBoostContext& ctx) {
                             auto const rank = ctx.world_rank().value;
                             auto const part = ctx.dataset_shard("train").part();
                             auto const make =
                                 rank == 1 ? failing_at(part, std::make_shared<int>(call)) : anew(part, 1'000);
                             auto const matrix = ctx.dmatrix(make, {.label = "target", .max_bin = 64});
                             auto booster = ctx.booster(bin_parameters(), {&matrix});
                             trained[rank] = 1;
                           },
                           config_of(folder, rows_of(12'000), 3)};
    auto const error = thrown_error([&] { trainer.fit(); });
    check_contains(error, "reading rows.csv: the disk is gone");
    check_contains(error, "rank 1");
    CHECK_MESSAGE(trained == std::vector<int>(3), call);
  }
}

TEST_CASE("a worker without rows is named, and the others are stopped") {
  TemporaryFolder const folder;
  XGBoostTrainer trainer{[&](XGBoostContext& ctx) {
                           auto const part = ctx.dataset_shard("train").part();
                           (void)ctx.dmatrix(anew(ctx.world_rank().value == 2 ? part.head(0) : part, 1'000),
                                             {.label = "target"});
                         },
                         config_of(folder, rows_of(3'000), 3)};
  auto const error = thrown_error([&] { trainer.fit(); });
  check_contains(error, "rank 2");
  check_contains(error, "there are no rows; give at least one; where a worker has none, use fewer workers");
}

TEST_CASE("workers whose blocks have other features are told so before XGBoost is") {
  TemporaryFolder const folder;
  XGBoostTrainer trainer{[&](XGBoostContext& ctx) {
                           auto part = ctx.dataset_shard("train").part();
                           if (ctx.world_rank().value == 1) part = part.drop_columns({"b"});
                           (void)ctx.dmatrix(anew(part, 1'000), {.label = "target"});
                         },
                         config_of(folder, rows_of(3'000), 2)};
  check_contains(thrown_error([&] { trainer.fit(); }),
                 "rank 1 has 3 features (a, c, w), and rank 0 has 4 features (a, b, c, w)");
}

TEST_CASE("a preprocessor that is fitted makes blocks of a run without datasets, and goes into its checkpoint") {
  TemporaryFolder const folder;
  auto const rows = rows_of(3'000, false);
  StandardScaler scaler{{"a", "b"}};
  scaler.fit(rows);
  std::string of_blocks;
  XGBoostTrainer trainer{[&](XGBoostContext& ctx) {
                           auto const matrix = ctx.dmatrix(anew(rows, 700), {.label = "target", .max_bin = 64});
                           auto const booster = boosted(matrix);
                           of_blocks = stored(booster);
                           ctx.report(Metrics{{"epoch", std::int64_t{0}}}, save(booster));
                         },
                         {.scaling = {.num_workers = 1, .resources_per_worker = {.cpus = 1}},
                          .run = {.name = "r", .storage_path = folder.path()},
                          .preprocessor = scaler}};
  auto const result = trainer.fit();
  CHECK(of_blocks == model_on(DMatrix{scaler.transform(rows), {.label = "target"}}));
  auto const predictions = XGBoostPredictor{result.checkpoint().value()}.predict(rows, {.label = "target"});
  CHECK(predictions.values.size() == rows.rows());
  CHECK(load_preprocessor(result.checkpoint().value()).transform(rows).column("a").as<float>()[5] ==
        scaler.transform(rows).column("a").as<float>()[5]);
}

TEST_CASE("the run's preprocessor makes blocks what it makes datasets") {
  TemporaryFolder const folder;
  auto const rows = rows_of(3'000, false);
  auto settings = config_of(folder, rows, 1);
  settings.preprocessor = StandardScaler{{"a", "b"}};
  std::string of_memory;
  std::string of_blocks;
  XGBoostTrainer trainer{[&](XGBoostContext& ctx) {
                           of_memory = model_on(ctx.dmatrix("train", {.label = "target"}));
                           of_blocks = model_on(ctx.dmatrix(anew(rows, 700), {.label = "target", .max_bin = 64}));
                         },
                         settings};
  trainer.fit();
  CHECK(of_blocks == of_memory);
  CHECK(of_blocks != model_on(DMatrix{rows, {.label = "target"}}));
}

}  // namespace
