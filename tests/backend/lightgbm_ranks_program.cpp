// SPDX-License-Identifier: Apache-2.0
// A training by LightGBM that boosting_on_ranks.py starts by mpirun.
#include <filesystem>
#include <string>

#include <raytrain/backend/lightgbm.hpp>
#include <raytrain/trainer.hpp>

#include "boosting_ranks.hpp"

using namespace raytrain;
using namespace raytrain::testing;

namespace {

void train_and_store(LightGBMContext& ctx, std::filesystem::path const& folder, std::string const& what) {
  LightGBMParams const params{
      .label = "target", .objective = "binary", .metric = {"auc"}, .num_leaves = 15, .num_iterations = 12};
  auto const train = what.starts_with("blocks") ? ctx.dataset(blocks_of_own_file(ctx, folder, what), params)
                                                : ctx.dataset("train", params);
  auto const valid = ctx.dataset("valid", params, &train);
  auto booster = ctx.booster(params, train, {{"valid", &valid}});
  while (booster.rounds() < params.num_iterations) {
    begin_round(what);
    ctx.together([&] { booster.update(); });
    ctx.report(Metrics{{"auc", ctx.evaluate(booster).back().value}}, save(booster));
  }
  if (what == "models" || what == "blocks") store_model(folder, ctx.world_rank(), booster.to_text());
}

auto fitted(std::filesystem::path const& storage, std::string const& what) -> Result {
  return Trainer<LightGBMBackend>{[=](LightGBMContext& ctx) { train_and_store(ctx, storage, what); },
                                  ranks_config<LightGBMBackend>(storage, what)}
      .fit();
}

}  // namespace

auto main(int argc, char** argv) -> int { return run_on_ranks(argc, argv, fitted); }
