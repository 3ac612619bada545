// SPDX-License-Identifier: Apache-2.0
// A training by XGBoost that boosting_on_ranks.py starts by mpirun.
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <string>

#include <raytrain/backend/xgboost.hpp>
#include <raytrain/trainer.hpp>

#include "boosting_ranks.hpp"
#include "xgboost_run.hpp"

using namespace raytrain;
using namespace raytrain::testing;

namespace {

// The logistic loss, which does what it is told to.
auto loss_that_goes_wrong(std::string const& what) -> XGBoostObjective {
  return [what](auto margins, auto labels, auto gradients, auto hessians) {
    begin_round(what);
    for (std::size_t row = 0; row < margins.size(); ++row) {
      auto const probability = 1 / (1 + std::exp(-margins[row]));
      gradients[row] = probability - labels[row];
      hessians[row] = probability * (1 - probability);
    }
  };
}

void train_and_store(XGBoostContext& ctx, std::filesystem::path const& folder) {
  auto const params = parameters();
  auto const train = ctx.dmatrix("train", {.label = "target"});
  auto const valid = ctx.dmatrix("valid", {.label = "target"});
  auto booster = ctx.booster(params, {&train, &valid});
  for (int round = 0; round < params.num_boost_round; ++round) booster.update(round, train);
  auto const evaluation = booster.evaluate(params.num_boost_round, {{"valid", &valid}});
  store_model(folder, ctx.world_rank(), text_of(booster.to_bytes()));
  ctx.report(Metrics{{"auc", evaluation.back().value}});
}

auto fitted(std::filesystem::path const& storage, std::string const& what) -> Result {
  auto const with = ranks_config<XGBoostBackend>(storage, what);
  if (what == "models") {
    return XGBoostTrainer{[storage](XGBoostContext& ctx) { train_and_store(ctx, storage); }, with}.fit();
  }
  auto params = parameters(what == "signal" ? 1'000'000 : 12);
  params.checkpoint_frequency = 1;
  params.custom_objective = loss_that_goes_wrong(what);
  return XGBoostTrainer{params, with}.fit();
}

}  // namespace

auto main(int argc, char** argv) -> int { return run_on_ranks(argc, argv, fitted); }
