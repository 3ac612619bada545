// SPDX-License-Identifier: Apache-2.0
// What columns and sparse rows become in XGBoost.
#include <raytrain/backend/xgboost/dmatrix.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/backend/xgboost.hpp>
#include <raytrain/backend/xgboost/csr_rows.hpp>
#include <raytrain/backend/xgboost/xgboost_predictor.hpp>
#include <raytrain/data/csv.hpp>
#include <raytrain/data/dataset.hpp>

#include "../support/temporary_folder.hpp"
#include "../support/thrown_error.hpp"
#include "xgboost_run.hpp"

namespace {

using namespace raytrain;
using namespace raytrain::testing;

constexpr auto nan = std::numeric_limits<float>::quiet_NaN();

// 400 rows of 5 columns, of which most values are missing; the target hangs on whether column 1 is there, and on its
// sign.
struct Sparse {
  std::vector<std::uint64_t> indptr{0};
  std::vector<std::uint32_t> indices;
  std::vector<float> values;
  std::vector<float> dense;
  std::vector<float> target;

  Sparse() {
    for (std::uint32_t row = 0; row < 400; ++row) {
      float wanted = 1;
      for (std::uint32_t column = 0; column < 5; ++column) {
        auto const is_there = (row * 7 + column * 3) % 5 < 2;
        auto const value = static_cast<float>((row * 31 + column * 17) % 23) - 11;
        dense.push_back(is_there ? value : nan);
        if (!is_there) continue;
        indices.push_back(column);
        values.push_back(value);
        if (column == 1 && value <= 0) wanted = 0;
      }
      indptr.push_back(values.size());
      target.push_back(wanted);
    }
  }

  [[nodiscard]] auto rows() const -> CsrRows {
    return {.indptr = indptr, .indices = indices, .values = values, .columns = 5, .labels = target};
  }
  [[nodiscard]] auto dataset() const -> Dataset {
    return Dataset::from_columns({{"x", dense, {5}}, {"target", target}});
  }
};

auto predictions_of(Booster const& booster, DMatrix const& data) -> std::vector<float> {
  return booster.predict(data).values;
}

// Boosts by a function of one worker, on what `make` makes of its context.
template <class Make>
auto boosted(Make const& make, XGBoostParams params = parameters()) -> std::vector<float> {
  TemporaryFolder const folder;
  std::vector<float> predictions;
  XGBoostTrainer trainer{[&](XGBoostContext& ctx) {
                           auto const train = make(ctx);
                           auto booster = ctx.booster(params, {&train});
                           for (int round = 0; round < params.num_boost_round; ++round) booster.update(round, train);
                           predictions = predictions_of(booster, train);
                         },
                         config(folder, 1)};
  trainer.fit();
  return predictions;
}

TEST_CASE("sparse rows give what the same rows give with NaN where nothing is stored") {
  Sparse const sparse;
  auto const expected = boosted([&](auto&) { return DMatrix{sparse.dataset(), {.label = "target"}}; });
  CHECK(boosted([&](XGBoostContext& ctx) { return ctx.dmatrix(sparse.rows()); }) == expected);
  for (std::size_t row = 0; row < sparse.target.size(); ++row) {
    REQUIRE((expected[row] > 0.5F) == (sparse.target[row] == 1));
  }
}

TEST_CASE("weights and names of sparse rows are those of the same dataset") {
  Sparse const sparse;
  std::vector<float> weights(400, 1);
  for (std::size_t row = 0; row < 400; row += 2) weights[row] = 4;
  auto const matrix = [&](auto&) {
    auto rows = sparse.rows();
    rows.weights = weights;
    rows.feature_names = {"a", "b", "c", "d", "e"};
    DMatrix made{rows};
    CHECK(made.feature_names() == rows.feature_names);
    CHECK(made.rows() == 400);
    CHECK(made.weights()[2] == 4);
    CHECK(made.weights()[3] == 1);
    return made;
  };
  auto const dataset = [&](auto&) {
    return DMatrix{Dataset::from_columns({{"x", sparse.dense, {5}}, {"target", sparse.target}, {"weight", weights}}),
                   {.label = "target", .weight = "weight"}};
  };
  auto const expected = boosted(dataset);
  CHECK(boosted(matrix) == expected);
  CHECK(boosted([&](auto&) { return DMatrix{sparse.rows()}; }) != expected);
}

TEST_CASE("distributed workers train on sparse rows of their own, to one model that a predictor reads") {
  Sparse const sparse;
  TemporaryFolder const folder;
  std::vector<std::string> models(2);
  XGBoostTrainer trainer{[&](XGBoostContext& ctx) {
                           auto const first = ctx.world_rank().value * 200;
                           auto rows = sparse.rows();
                           std::vector<std::uint64_t> indptr;
                           for (auto const end : rows.indptr.subspan(first, 201)) {
                             indptr.push_back(end - rows.indptr[first]);
                           }
                           rows.indptr = indptr;
                           rows.indices = rows.indices.subspan(sparse.indptr[first], indptr.back());
                           rows.values = rows.values.subspan(sparse.indptr[first], indptr.back());
                           rows.labels = rows.labels.subspan(first, 200);
                           auto const train = ctx.dmatrix(rows);
                           CHECK(train.rows() == 200);
                           auto booster = ctx.booster(parameters(), {&train});
                           for (int round = 0; round < 10; ++round) booster.update(round, train);
                           models[ctx.world_rank().value] = text_of(booster.to_bytes());
                           ctx.report(Metrics{{"round", 9}}, save(booster));
                         },
                         config(folder, 2, XGBoostMode::distributed)};
  auto const result = trainer.fit();
  CHECK(models[0] == models[1]);
  auto const predictions = XGBoostPredictor{result.checkpoint().value()}.predict(DMatrix{sparse.rows()}).values;
  for (std::size_t row = 0; row < 400; ++row) REQUIRE((predictions[row] > 0.5F) == (sparse.target[row] == 1));
}

TEST_CASE("sparse rows that do not fit together are refused with the field and its value") {
  Sparse const sparse;
  auto const refused_with = [&](auto const& change) {
    auto rows = sparse.rows();
    change(rows);
    return thrown_error([&] { DMatrix{rows}; });
  };
  std::vector<std::uint64_t> indptr{0, 5, 3};
  check_contains(refused_with([](CsrRows& rows) { rows.indptr = {}; }), "invalid_data: CsrRows::indptr: holds no row");
  check_contains(refused_with([&](CsrRows& rows) { rows.indptr = indptr; }),
                 "CsrRows::indptr: falls at 2, from 5 to 3; write where the values of each row end");
  check_contains(refused_with([](CsrRows& rows) { rows.indptr = rows.indptr.first(10); }),
                 "CsrRows::indptr: ends with ");
  check_contains(refused_with([](CsrRows& rows) { rows.indptr = rows.indptr.subspan(1); }),
                 "CsrRows::indptr: begins with 2; begin with 0");
  check_contains(refused_with([](CsrRows& rows) { rows.columns = 4; }), "is in column 4, and there are 4");
  check_contains(refused_with([](CsrRows& rows) { rows.columns = 0; }),
                 "CsrRows::columns: must be 1 to 2^32 - 1 (got 0)");
  check_contains(refused_with([](CsrRows& rows) { rows.values = rows.values.first(799); }),
                 "CsrRows::indices: are 800, and there are 799 values");
  check_contains(refused_with([](CsrRows& rows) { rows.labels = rows.labels.first(399); }),
                 "CsrRows::labels: are 399, and must be 400; give one for each, or none");
  check_contains(refused_with([](CsrRows& rows) { rows.weights = rows.labels.first(3); }),
                 "CsrRows::weights: are 3, and must be 400");
  check_contains(refused_with([](CsrRows& rows) { rows.feature_names = {"a"}; }),
                 "CsrRows::feature_names: are 1, and must be 5");
  std::vector<float> labels(400, nan);
  check_contains(refused_with([&](CsrRows& rows) { rows.labels = labels; }), "row 0 of labels is nan");
}

TEST_CASE("a value that stands for a missing one is taken as NaN is") {
  Sparse const sparse;
  auto numbers = sparse.dense;
  for (auto& value : numbers) value = std::isnan(value) ? -999 : value;
  auto const marked = Dataset::from_columns({{"x", numbers, {5}}, {"target", sparse.target}});
  auto const expected = boosted([&](auto&) { return DMatrix{sparse.dataset(), {.label = "target"}}; });
  CHECK(boosted([&](auto&) { return DMatrix{marked, {.label = "target", .missing = -999}}; }) == expected);
  // As a number it lies left of all others, where missing ones can lie on either side.
  CHECK(boosted([&](auto&) { return DMatrix{marked, {.label = "target"}}; }) != expected);
}

TEST_CASE("categories are split as sets, which no split of one number can do, and a stored model keeps them") {
  std::vector<std::int32_t> colour;
  std::vector<float> target;
  for (int row = 0; row < 800; ++row) {
    colour.push_back(row % 16);
    target.push_back(row % 2 == 0 ? 1.0F : 0.0F);
  }
  auto const data = Dataset::from_columns({{"colour", colour}, {"target", target}});
  auto const error = [&](std::vector<std::string> const& categorical, auto const& look_at) {
    TemporaryFolder const folder;
    auto with = config(folder, 1);
    with.datasets = {{"train", data}};
    XGBoostParams params{.label = "target",
                         .categorical = categorical,
                         .objective = "binary:logistic",
                         .eval_metric = {"error"},
                         .max_depth = 1,
                         .num_boost_round = 1,
                         .params = {{"max_cat_to_onehot", "1"}}};
    auto const result = XGBoostTrainer{params, with}.fit();
    look_at(folder, XGBoostPredictor{result.checkpoint().value()});
    return *result.metrics.number("train-error");
  };
  CHECK(error({}, [](auto&&...) {}) > 0.4);
  CHECK(error({"colour"}, [&](TemporaryFolder const& folder, XGBoostPredictor const& predictor) {
          DMatrixOptions const options{.label = "target", .categorical = {"colour"}};
          auto const expected = predictor.predict(data, options).values;
          for (auto const* const name : {"model.json", "model.ubj"}) {
            predictor.save_model(folder.path() / name);
            CHECK(XGBoostPredictor{folder.path() / name}.predict(data, options).values == expected);
          }
          std::ifstream file{folder.path() / "model.json"};
          std::string const text{std::istreambuf_iterator<char>{file}, {}};
          check_contains(text, R"("feature_names":["colour"],"feature_types":["c"])");
        }) == 0);
}

TEST_CASE("weights move a model towards the rows that have them") {
  std::vector<float> x(300, 1);
  std::vector<float> target(300);
  std::vector<float> weights(300, 1);
  for (std::size_t row = 0; row < 300; row += 3) {
    target[row] = 1;
    weights[row] = 4;
  }
  auto const probability = [&](std::string const& weight) {
    auto params = parameters(50);
    params.params = {{"base_score", "0.5"}};
    return boosted(
        [&](auto&) {
          return DMatrix{Dataset::from_columns({{"x", x}, {"target", target}, {"weight", weights}}),
                         {.label = "target", .weight = weight, .features = {"x"}}};
        },
        params)[0];
  };
  CHECK(probability("") == doctest::Approx(1.0 / 3).epsilon(0.02));
  CHECK(probability("weight") == doctest::Approx(4.0 / 6).epsilon(0.02));
}

TEST_CASE("a ranking has one weight for each group, and groups that weigh nothing do not count") {
  std::vector<float> x;
  std::vector<float> target;
  std::vector<float> weights;
  std::vector<std::int32_t> query;
  for (int i = 0; i < 600; ++i) {
    // In every second group the order is the other way round.
    auto const is_reversed = i / 6 % 2 == 1;
    auto const place = static_cast<float>(i % 6);
    query.push_back(i / 6);
    x.push_back(place);
    target.push_back(is_reversed ? 5 - place : place);
    weights.push_back(is_reversed ? 0.0F : 1.0F);
  }
  XGBoostParams params{.label = "target", .objective = "rank:pairwise"};
  auto const rises = [&](std::vector<float> const& group_weights) {
    auto const scores = boosted(
        [&](auto&) {
          return DMatrix{
              Dataset::from_columns({{"x", x}, {"query", query}, {"target", target}, {"weight", group_weights}}),
              {.label = "target", .weight = "weight", .group = "query"}};
        },
        params);
    return scores[5] > scores[0];
  };
  CHECK(rises(weights));
  for (auto& weight : weights) weight = 1 - weight;
  CHECK_FALSE(rises(weights));
  weights[8] = 0.5F;
  check_contains(thrown_error([&] { (void)rises(weights); }),
                 "rows 6 and 8 are in one group of the column 'query', and their weights in 'weight' are 1 and 0.5");
}

TEST_CASE("features are named by their columns, those with several numbers a row by their places too") {
  auto const data = Dataset::from_columns(
      {{"x", std::vector<float>(4), {2}}, {"age", std::vector<std::int32_t>(2)}, {"target", std::vector<float>(2)}});
  CHECK(DMatrix{data, {.label = "target"}}.feature_names() == std::vector<std::string>{"x_0", "x_1", "age"});
  CHECK(DMatrix{data, {.features = {"age"}}}.feature_names() == std::vector<std::string>{"age"});
  check_contains(thrown_error([&] {
                   DMatrix{data, {.features = {"size"}}};
                 }),
                 "column 'size': is not in the dataset, which has x (float32, 2), age (int32, scalar), target");
  check_contains(thrown_error([&] {
                   DMatrix{data, {.categorical = {"size"}}};
                 }),
                 "column 'size': is not in the dataset");
}

TEST_CASE("text is refused as a feature and as a label before XGBoost sees it, with its column") {
  TemporaryFolder const folder;
  auto const path = folder.path() / "patients.csv";
  std::ofstream{path} << "age,town,target\n40,Riga,1\n";
  auto const with_text = read_csv(path);
  check_contains(thrown_error([&] {
                   DMatrix{with_text, {.label = "target"}};
                 }),
                 "DMatrix: column 'town' holds text and no numbers; leave it out");
  check_contains(thrown_error([&] {
                   DMatrix{with_text, {.label = "town", .features = {"age"}}};
                 }),
                 "DMatrix: column 'town' holds text and no numbers");
  CHECK(DMatrix{with_text, {.label = "target", .features = {"age"}}}.rows() == 1);
  auto const data = read_csv(path, {.columns = {"age", "target"}});
  CHECK(DMatrix{data, {.label = "target"}}.feature_names() == std::vector<std::string>{"age"});
}

TEST_CASE("any value stands for a missing one, infinity and NaN too") {
  for (auto const missing :
       {nan, 3.5F, std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()}) {
    CAPTURE(missing);
    DMatrix const matrix{Dataset::from_columns({{"x", std::vector<float>{1, missing, 2, missing}}}),
                         {.missing = missing}};
    bst_ulong count = 0;
    REQUIRE(XGDMatrixNumNonMissing(matrix.handle(), &count) == 0);
    CHECK(count == 2);
  }
}

TEST_CASE("a dataset without rows is refused") {
  auto const data = sample(2, 1).head(0);
  check_contains(
      thrown_error([&] {
        DMatrix{data, {.label = "target"}};
      }),
      "invalid_data: DMatrix: there are no rows; give at least one; where a worker has none, use fewer workers");
}

}  // namespace
