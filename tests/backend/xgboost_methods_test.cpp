// SPDX-License-Identifier: Apache-2.0
// Everything that XGBoost can train with: it does so on threads and distributed, or says why it does not.
#include <array>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <xgboost/c_api.h>

#include <raytrain/backend/xgboost.hpp>

#include "../support/temporary_folder.hpp"
#include "../support/thrown_error.hpp"
#include "xgboost_refused.hpp"
#include "xgboost_run.hpp"

namespace {

using namespace raytrain;
using namespace raytrain::testing;

/// Whether the library, whose headers may be older, is of this version or a later one. Tried: 1.7, 3.0 and 3.2.
auto library_is(int major, int minor) -> bool {
  std::array<int, 2> version{};
  int patch = 0;
  ::XGBoostVersion(&version[0], &version[1], &patch);
  return version >= std::array{major, minor};
}

struct Method {
  std::string name;
  XGBoostParams params;
  std::string refused{};              ///< What XGBoost says of it anywhere; empty: it trains.
  std::string refused_distributed{};  ///< And what it says where workers add up histograms.
};

auto methods() -> std::vector<Method> {
  return {
      {"hist", {}},
      {"approx", {.tree_method = "approx"}},
      {"exact", {.tree_method = "exact"}, "", "exact"},
      {"auto", {.tree_method = "auto"}},
      {"gpu_hist",
       {.tree_method = "gpu_hist"},
       library_is(3, 1) ? "Invalid Input: 'gpu_hist'" : "not compiled with GPU support"},
      {"leaf-wise", {.max_depth = 0, .params = {{"grow_policy", "lossguide"}, {"max_leaves", "8"}}}},
      {"a part of rows and columns", {.subsample = 0.5, .colsample_bytree = 0.5}},
      {"a part of the columns in each level and node",
       {.params = {{"colsample_bylevel", "0.5"}, {"colsample_bynode", "0.5"}}}},
      {"rows by their gradients",
       {.subsample = 0.5, .params = {{"sampling_method", "gradient_based"}}},
       library_is(3, 1) ? "" : "Only uniform sampling is supported"},
      {"forest", {.subsample = 0.5, .params = {{"num_parallel_tree", "4"}}}},
      {"monotone", {.params = {{"monotone_constraints", "(1,0,0,0)"}}}},
      {"dart", {.params = {{"booster", "dart"}, {"rate_drop", "0.5"}, {"skip_drop", "0.1"}}}},
      {"gblinear",
       {.params = {{"booster", "gblinear"}, {"updater", "coord_descent"}}},
       "",
       "XGBoost would give each worker a model of its own"},
      {"multi:softprob", {.objective = "multi:softprob", .num_class = 2}},
      {"multi:softmax", {.objective = "multi:softmax", .num_class = 2}},
      {"reg:squarederror", {.objective = "reg:squarederror"}},
      {"reg:absoluteerror", {.objective = "reg:absoluteerror"}},
      {"reg:pseudohubererror", {.objective = "reg:pseudohubererror"}},
      {"reg:quantileerror",
       {.objective = "reg:quantileerror", .params = {{"quantile_alpha", "0.8"}}},
       library_is(2, 0) ? "" : "Unknown objective function: `reg:quantileerror`"},
      {"binary:hinge", {.objective = "binary:hinge"}},
      {"count:poisson", {.objective = "count:poisson"}},
      {"reg:tweedie", {.objective = "reg:tweedie"}},
      {"survival:cox", {.objective = "survival:cox"}},
  };
}

auto small(TemporaryFolder const& folder, XGBoostMode mode) -> TrainerConfig<XGBoostBackend> {
  auto with = config(folder, 2, mode);
  with.datasets = {{"train", sample(400, 1)}};
  return with;
}

/// What each of two distributed workers has in the end, or the error that ended them.
auto distributed_models(XGBoostParams const& params, std::string& error) -> std::vector<std::string> {
  TemporaryFolder const folder;
  std::vector<std::string> models(2);
  XGBoostTrainer trainer{[&](XGBoostContext& ctx) {
                           auto const train = ctx.dmatrix("train", {.label = "target"});
                           auto booster = ctx.booster(params, {&train});
                           for (int round = 0; round < params.num_boost_round; ++round) {
                             ctx.together([&] { booster.update(round, train); });
                           }
                           models[ctx.world_rank().value] = text_of(booster.to_bytes(ModelFormat::json));
                         },
                         small(folder, XGBoostMode::distributed)};
  try {
    trainer.fit();
  } catch (Error const& failed) {
    error = failed.what();
  }
  return models;
}

TEST_CASE("every way to train that XGBoost has gives one model on all workers, or is refused with its text") {
  for (auto& [name, params, refused_anywhere, refused_distributed] : methods()) {
    CAPTURE(name);
    auto tried = params;
    tried.label = "target";
    tried.num_boost_round = 4;
    if (tried.objective == XGBoostParams{}.objective && name != tried.objective) tried.objective = "binary:logistic";

    TemporaryFolder const folder;
    auto const with = small(folder, XGBoostMode::automatic);
    if (refused_anywhere.empty()) {
      auto const result = XGBoostTrainer{tried, with}.fit();
      CHECK(result.metrics.number("round") == 3);
      CHECK(model_of(result).size() > 300);
    } else {
      check_contains(refused(tried, with), refused_anywhere);
    }

    std::string error;
    auto const models = distributed_models(tried, error);
    auto const expected = refused_anywhere + refused_distributed;
    if (expected.empty()) {
      CHECK(error == "");
      CHECK(models[0].size() > 300);
      CHECK(models[0] == models[1]);
    } else {
      check_contains(error, expected);
    }
  }
}

}  // namespace
