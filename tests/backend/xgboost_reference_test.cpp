// SPDX-License-Identifier: Apache-2.0
// Rows that get the bins of others, and models whose trees split between bins.
#include <raytrain/backend/xgboost.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <raytrain/core/metrics.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/dataset_blocks.hpp>
#include <raytrain/trainer.hpp>

#include "../support/temporary_folder.hpp"
#include "../support/thrown_error.hpp"
#include "xgboost_run.hpp"

namespace {

using namespace raytrain;
using namespace raytrain::testing;

/// Rows with a number, a category below `categories`, and a target that follows from both; others for other seeds.
auto number_and_category(std::size_t rows, std::size_t seed, std::size_t categories = 4) -> Dataset {
  std::vector<float> number(rows);
  std::vector<std::int32_t> category(rows);
  std::vector<float> target(rows);
  for (std::size_t row = 0; row < rows; ++row) {
    number[row] = static_cast<float>((row + seed) * 7'919 % 10'007);
    category[row] = static_cast<std::int32_t>((row + seed) % categories);
    target[row] = (number[row] > 5'000) != (category[row] == 2) ? 1.0F : 0.0F;
  }
  return Dataset::from_columns({{"number", number}, {"category", category}, {"target", target}});
}

auto one_block(Dataset const& rows) -> MakeBlocks {
  return [rows] { return DatasetBlocks{rows}; };
}

DMatrixOptions const with_bins{.label = "target", .max_bin = 16};
DMatrixOptions const with_categories{.label = "target", .categorical = {"category"}, .max_bin = 16};

auto boosted_on(DMatrix const& train) -> Booster {
  Booster booster{{&train}};
  auto params = parameters();
  params.max_bin = 16;
  for (auto const& [name, value] : params.named()) booster.set_parameter(name, value);
  booster.set_parameter("nthread", "1");
  for (int round = 0; round < 4; ++round) booster.update(round, train);
  return booster;
}

auto loss_on(Booster const& booster, DMatrix const& matrix) -> double {
  return booster.evaluate(4, {{"valid", &matrix}}).back().value;
}

TEST_CASE("a reference with bins of rows in memory serves as one of blocks does, and decides how many bins there are") {
  auto const valid = number_and_category(500, 31);
  auto const expected = DMatrix{valid, {.label = "target"}};
  auto const train = number_and_category(3'000, 1);
  DMatrix const of_memory{train, with_bins};
  auto const booster = boosted_on(of_memory);
  CHECK(loss_on(booster, DMatrix{one_block(valid), {.label = "target"}, &of_memory}) == loss_on(booster, expected));
  DMatrix const of_blocks{one_block(train), with_bins};
  CHECK(loss_on(boosted_on(of_blocks), DMatrix{one_block(valid), {.label = "target"}, &of_blocks}) ==
        loss_on(boosted_on(of_blocks), expected));
}

TEST_CASE("rows that the bins of a reference do not fit are refused, with what differs") {
  auto const train = number_and_category(1'000, 1);
  auto const refused = [](DMatrix const& reference, Dataset const& rows, DMatrixOptions const& options = with_bins) {
    return thrown_error([&] { DMatrix{one_block(rows), options, &reference}; });
  };
  DMatrix const reference{one_block(train), with_bins};
  check_contains(refused(reference, train.select_columns({"category", "number", "target"})),
                 "DMatrix with the bins of a reference: its feature 0 is 'category', and that of the reference "
                 "'number'; give the columns of the rows to train on");
  check_contains(refused(reference, train.drop_columns({"category"})), "it has 1 features, and the reference has 2");
  check_contains(refused(reference, train, with_categories),
                 "its feature 'category' has categories, and that of the reference numbers");
  check_contains(refused(reference, train, {.label = "target", .max_bin = 32}),
                 "DMatrixOptions::max_bin: is 32, and that of the reference 16; write 0");
  check_contains(refused(DMatrix{train, {.label = "target"}}, train),
                 "the reference keeps its values; make it of blocks, or with DMatrixOptions::max_bin");
}

TEST_CASE("a category that the reference's bins do not know is refused, and not taken for another one") {
  DMatrix const reference{one_block(number_and_category(1'000, 1)), with_categories};
  check_contains(
      thrown_error([&] {
        DMatrix{one_block(number_and_category(1'000, 1, 7)), with_categories, &reference};
      }),
      "DMatrix: row 3 of the categorical feature 'category' is 4, and the largest one of the reference is 3; "
      "write NaN for categories that the rows to train on do not have");
}

TEST_CASE("a negative category of blocks is refused, with its row") {
  auto const rows = number_and_category(10, 1);
  auto const lower = [](Dataset const& some, float by) {
    std::vector<float> categories;
    for (auto const category : some.column("category").as<std::int32_t>()) {
      categories.push_back(static_cast<float>(category) - by);
    }
    return some.drop_columns({"category"}).add_column({"category", categories});
  };
  check_contains(thrown_error([&] {
                   DMatrix{one_block(lower(rows, 1)), with_categories};
                 }),
                 "row 3 of the categorical feature 'category' is -1; number categories from 0 on");
  CHECK(DMatrix{one_block(lower(rows, 0)), with_categories}.rows() == 10);
}

TEST_CASE("workers evaluate blocks with a category that another worker's rows have") {
  TemporaryFolder const folder;
  auto with = config(folder, 2, XGBoostMode::distributed);
  with.datasets = {};
  XGBoostTrainer{[&](XGBoostContext& ctx) {
                   auto const categories = ctx.world_rank() == Rank{0} ? 7U : 3U;
                   auto const train =
                       ctx.dmatrix(one_block(number_and_category(1'000, 1, categories)), with_categories);
                   CHECK(ctx.dmatrix(one_block(number_and_category(100, 1, 7)), with_categories, &train).rows() == 100);
                   check_contains(thrown_error([&] {
                                    DMatrix{one_block(number_and_category(100, 1, 8)), with_categories, &train};
                                  }),
                                  "is 7, and the largest one of the reference is 6");
                 },
                 with}
      .fit();
}

TEST_CASE("bins other than those that a model trains on are not evaluated, nor predicted from") {
  auto const train = number_and_category(3'000, 1);
  auto const valid = number_and_category(500, 31);
  DMatrix const matrix{one_block(train), with_bins};
  auto const booster = boosted_on(matrix);
  auto const of_blocks = std::make_unique<DMatrix>(one_block(valid), with_bins);
  auto const of_memory = std::make_unique<DMatrix>(valid, with_bins);
  for (auto const* const other : {of_blocks.get(), of_memory.get()}) {
    auto const refusal =
        "the matrix keeps bins of its rows, which are not those that the model splits between; give a dataset without "
        "DMatrixOptions::max_bin, or blocks with the matrix to train on as reference";
    check_contains(thrown_error([&] { (void)loss_on(booster, *other); }),
                   std::string{"evaluating XGBoost's model on 'valid': "} + refusal);
    check_contains(thrown_error([&] { (void)booster.predict(*other); }),
                   std::string{"predicting from a model of XGBoost: "} + refusal);
  }
  CHECK(booster.predict(DMatrix{one_block(valid), with_bins, &matrix}).values ==
        booster.predict(DMatrix{valid, {.label = "target"}}).values);
}

TEST_CASE("workers that make different matrices are told so before XGBoost waits for ever") {
  auto const error_of = [](auto const& make) {
    TemporaryFolder const folder;
    return thrown_error([&] {
      XGBoostTrainer{[&](XGBoostContext& ctx) { make(ctx, ctx.world_rank() == Rank{1}); },
                     config(folder, 2, XGBoostMode::distributed)}
          .fit();
    });
  };
  auto const blocks = one_block(number_and_category(1'000, 1));
  check_contains(error_of([&](XGBoostContext& ctx, bool is_other) {
                   (void)ctx.dmatrix(blocks, {.label = "target", .max_bin = is_other ? 32 : 0});
                 }),
                 "XGBoostContext::dmatrix(MakeBlocks): rank 1 makes a matrix of blocks with 32 bins, no reference and "
                 "the categorical columns (), and rank 0 makes a matrix of blocks with 256 bins");
  check_contains(error_of([&](XGBoostContext& ctx, bool is_other) {
                   (void)ctx.dmatrix(blocks, is_other ? with_categories : with_bins);
                 }),
                 "rank 1 makes a matrix of blocks with 16 bins, no reference and the categorical columns (category)");
  check_contains(error_of([&](XGBoostContext& ctx, bool is_other) {
                   auto const train = ctx.dmatrix(blocks, with_bins);
                   (void)ctx.dmatrix(blocks, with_bins, is_other ? nullptr : &train);
                 }),
                 "and rank 0 makes a matrix of blocks with 16 bins, a reference and");
  check_contains(error_of([&](XGBoostContext& ctx, bool is_other) {
                   (void)ctx.dmatrix("train", {.label = "target", .max_bin = is_other ? 64 : 0});
                 }),
                 "rank 1 makes a matrix of a dataset with 64 bins, no reference and the categorical columns (), and "
                 "rank 0 makes a matrix of a dataset with values");
}

TEST_CASE("workers that have other parameters are told which, before XGBoost waits for what does not come") {
  TemporaryFolder const folder;
  auto const error = thrown_error([&] {
    XGBoostTrainer{[](XGBoostContext& ctx) {
                     auto params = parameters();
                     auto const train = ctx.dmatrix("train", {.label = "target"});
                     params.params["verbosity"] = fmt::format("{}", ctx.world_rank().value);  // of a worker's own
                     (void)ctx.booster(params, {&train});
                     if (ctx.world_rank() == Rank{1}) {
                       params.max_depth = 2;
                       params.params["max_leaves"] = "5";
                     }
                     (void)ctx.booster(params, {&train});
                   },
                   config(folder, 2, XGBoostMode::distributed)}
        .fit();
  });
  check_contains(error,
                 "XGBoostContext::booster: rank 1 has max_depth = 2, max_leaves = 5, and rank 0 has max_depth = 4; "
                 "give all workers the same parameters");
}

TEST_CASE("a run that goes on with blocks warns where its trees split between other bins than theirs") {
  TemporaryFolder const folder;
  auto const rows = number_and_category(3'000, 1);
  auto const warnings_with = [&](int workers, int rounds) {
    auto with = config(folder, workers, XGBoostMode::distributed);
    with.datasets = {};
    auto const result = XGBoostTrainer{[&](XGBoostContext& ctx) {
                                         auto const train = ctx.dmatrix(
                                             [&] {
                                               return DatasetBlocks{rows}.map("cut", [&](Dataset const& all) {
                                                 auto const part = all.rows() / ctx.world_size().value;
                                                 return all.split_at(part * ctx.world_rank().value).second.head(part);
                                               });
                                             },
                                             with_bins);
                                         auto params = parameters();
                                         params.max_bin = 16;
                                         auto booster = ctx.booster(params, {&train});
                                         for (int round = booster.rounds(); round < rounds; ++round) {
                                           ctx.together([&] { booster.update(round, train); });
                                           ctx.report(Metrics{{"round", std::int64_t{round}}}, save(booster));
                                         }
                                       },
                                       with}
                            .fit();
    return std::ranges::count_if(result.warnings, [](std::string const& text) {
      return text.find("the trees of the model to go on from split between other bins") != std::string::npos;
    });
  };
  CHECK(warnings_with(2, 2) == 0);
  CHECK(warnings_with(2, 4) == 0);
  CHECK(warnings_with(3, 6) == 1);
  CHECK(warnings_with(3, 8) == 1);  // whose trees are of both now
}

TEST_CASE("a function that makes no blocks since it is empty is refused") {
  check_contains(thrown_error([] {
                   DMatrix{MakeBlocks{}, with_bins};
                 }),
                 "invalid_call: DMatrix: the function that makes blocks is empty");
  TemporaryFolder const folder;
  check_contains(thrown_error([&] {
                   XGBoostTrainer{[](XGBoostContext& ctx) { (void)ctx.dmatrix(MakeBlocks{}, with_bins); },
                                  config(folder, 1)}
                       .fit();
                 }),
                 "DMatrix: the function that makes blocks is empty; give one");
}

}  // namespace
