// SPDX-License-Identifier: Apache-2.0
// Workers of which some have rows that lack values, and others have none.
#include <raytrain/backend/xgboost.hpp>

#include <cstddef>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <xgboost/version_config.h>

#include <raytrain/data/dataset.hpp>
#include <raytrain/data/dataset_blocks.hpp>
#include <raytrain/trainer.hpp>

#include "../support/temporary_folder.hpp"
#include "../support/thrown_error.hpp"
#include "xgboost_run.hpp"

namespace {

using namespace raytrain;
using namespace raytrain::testing;

/// Two workers' rows, of which the second half lacks some values.
auto half_with_gaps() -> Dataset {
  constexpr std::size_t rows = 4'000;
  std::vector<float> a(rows);
  std::vector<float> b(rows);
  std::vector<float> weight(rows);
  std::vector<float> target(rows);
  for (std::size_t row = 0; row < rows; ++row) {
    a[row] = static_cast<float>(row * 37 % 101);
    b[row] = static_cast<float>(row * 53 % 89);
    weight[row] = static_cast<float>(1 + row % 3);
    target[row] = a[row] > b[row] ? 1.0F : 0.0F;
    if (row >= rows / 2 && row % 7 == 0) b[row] = std::numeric_limits<float>::quiet_NaN();
  }
  return Dataset::from_columns({{"a", a}, {"b", b}, {"weight", weight}, {"target", target}});
}

auto two_workers(TemporaryFolder const& folder) -> TrainerConfig<XGBoostBackend> {
  auto with = config(folder, 2, XGBoostMode::distributed);
  with.datasets = {{"train", half_with_gaps()}};
  return with;
}

/// Three rounds by `tree_method`.
auto trained(XGBoostContext& ctx, DMatrix const& train, std::string tree_method = "hist") -> std::string {
  auto params = parameters();
  params.tree_method = std::move(tree_method);
  auto booster = ctx.booster(params, {&train});
  for (int round = 0; round < 3; ++round) ctx.together([&] { booster.update(round, train); });
  CHECK(booster.evaluate(3, {{"train", &train}}).back().value > 0.9);
  return std::string{text_of(booster.to_bytes())};
}

TEST_CASE("workers of which one has no gaps come to one model, of blocks and of bins in memory") {
  TemporaryFolder const folder;
  std::vector<std::string> of_blocks(2);
  std::vector<std::string> of_bins(2);
  XGBoostTrainer{[&](XGBoostContext& ctx) {
                   auto const rank = ctx.world_rank().value;
                   auto const rows = ctx.dataset_shard("train").part();
                   DMatrixOptions const options{.label = "target", .features = {"b", "a"}, .max_bin = 256};
                   auto const blocks = ctx.dmatrix([&] { return DatasetBlocks{rows}; }, options);
                   CHECK(blocks.has_gaps() == (rank == 1 || XGBOOST_VER_MAJOR < 2));  // as XGBoost takes them
                   of_blocks[rank] = trained(ctx, blocks);
                   of_bins[rank] = trained(ctx, ctx.dmatrix("train", options));
                 },
                 two_workers(folder)}
      .fit();
  CHECK(of_blocks[0] == of_blocks[1]);
  CHECK(of_bins == of_blocks);
}

TEST_CASE("a worker that has one row, without gaps, trains with one whose rows have some") {
  TemporaryFolder const folder;
  std::vector<std::string> models(2);
  XGBoostTrainer{[&](XGBoostContext& ctx) {
                   auto const rank = ctx.world_rank().value;
                   auto const all = half_with_gaps();
                   auto const rows = rank == 0 ? all.head(1) : all;
                   DMatrixOptions const options{.label = "target", .features = {"b", "a"}, .categorical = {"b"}};
                   models[rank] = trained(ctx, ctx.dmatrix([&] { return DatasetBlocks{rows}; }, options));
                 },
                 two_workers(folder)}
      .fit();
  CHECK(models[0] == models[1]);
}

TEST_CASE("the ready-made training takes workers of which one has no gaps") {
  TemporaryFolder const folder;
  auto const result = XGBoostTrainer{parameters(), two_workers(folder)}.fit();
  CHECK(result.metrics.number("train-auc").value() > 0.9);
}

#if XGBOOST_VER_MAJOR < 2

TEST_CASE("values of which one worker has no gaps are evaluated, and refused by a training that would hang") {
  TemporaryFolder const folder;
  XGBoostTrainer{[&](XGBoostContext& ctx) {
                   auto const values = ctx.dmatrix("train", {.label = "target", .weight = "weight"});
                   check_contains(
                       thrown_error([&] { (void)trained(ctx, values); }),
                       "training by XGBoost's tree_method hist: rows lack values on some workers and on "
                       "others none does, of which XGBoost 1.7 would wait for ever; give such rows as blocks");
                   CHECK(!trained(ctx, values, "approx").empty());
                 },
                 two_workers(folder)}
      .fit();
}

TEST_CASE(
    "a matrix of the program's own is refused where workers would hang, and so is one that the model does not know") {
  TemporaryFolder const folder;
  XGBoostTrainer{[&](XGBoostContext& ctx) {
                   ctx.connect();
                   auto const rows = ctx.dataset_shard("train").part();
                   DMatrix const own{rows, {.label = "target", .weight = "weight"}};
                   check_contains(thrown_error([&] { (void)trained(ctx, own); }),
                                  "rows lack values on some workers and on others none does");
                   auto const other = ctx.dmatrix("train", {.label = "target", .max_bin = 256});
                   auto booster = ctx.booster(parameters(), {&other});
                   check_contains(thrown_error([&] { ctx.together([&] { booster.update(0, own); }); }),
                                  "training an XGBoost model: the matrix is not one of those that the model "
                                  "was made for; name it when you call XGBoostContext::booster");
                 },
                 two_workers(folder)}
      .fit();
}

#endif

TEST_CASE("workers that make a model for other numbers of matrices are told so") {
  TemporaryFolder const folder;
  XGBoostTrainer trainer{[&](XGBoostContext& ctx) {
                           auto const train = ctx.dmatrix("train", {.label = "target"});
                           (void)ctx.booster(parameters(), ctx.world_rank() == Rank{0}
                                                               ? std::vector<DMatrix const*>{&train}
                                                               : std::vector<DMatrix const*>{&train, &train});
                         },
                         two_workers(folder)};
  check_contains(
      thrown_error([&] { trainer.fit(); }),
      "XGBoostContext::booster: rank 1 has 2 matrices, and rank 0 has 1; give all workers the same matrices");
}

}  // namespace
