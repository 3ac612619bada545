// SPDX-License-Identifier: Apache-2.0
// A training by XGBoost that boosting_on_ranks.py starts by mpirun.
#include <unistd.h>

#include <cmath>
#include <cstddef>
#include <filesystem>
#include <string>
#include <utility>

#include <fmt/format.h>

#include <raytrain/backend/xgboost.hpp>
#include <raytrain/data/csv.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/materialize.hpp>
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

void train_and_store(XGBoostContext& ctx, DMatrix const& train, std::filesystem::path const& folder) {
  auto const params = parameters();
  auto const valid = ctx.dmatrix("valid", {.label = "target"});
  auto booster = ctx.booster(params, {&train, &valid});
  for (int round = 0; round < params.num_boost_round; ++round) booster.update(round, train);
  auto const evaluation = booster.evaluate(params.num_boost_round, {{"valid", &valid}});
  store_model(folder, ctx.world_rank(), text_of(booster.to_bytes()));
  ctx.report(Metrics{{"auc", evaluation.back().value}});
}

/// All ranks want the rows of one file, which is cut when the first of them has read a block.
void materialize_a_file_that_is_cut(XGBoostContext& ctx, std::filesystem::path const& folder) {
  say(fmt::format("rank {}, process {}", ctx.world_rank().value, ::getpid()));
  if (ctx.world_rank() == Rank{0}) own_file(ctx, folder);
  ctx.barrier();
  auto const file = folder / "rows_0.csv";
  auto const blocks = csv_blocks(file, {}, 300).map("watched", [&, is_first = true](Dataset const& block) mutable {
    if (std::exchange(is_first, false)) std::filesystem::resize_file(file, std::filesystem::file_size(file) / 2);
    return block;
  });
  ctx.barrier();  // so that all have seen the whole file
  (void)materialize(folder / "rows", blocks);
}

auto fitted(std::filesystem::path const& storage, std::string const& what) -> Result {
  auto const with = ranks_config<XGBoostBackend>(storage, what);
  if (what == "materialized") {
    return XGBoostTrainer{[storage](XGBoostContext& ctx) { materialize_a_file_that_is_cut(ctx, storage); }, with}.fit();
  }
  if (what.starts_with("blocks")) {
    return XGBoostTrainer{[storage, what](XGBoostContext& ctx) {
                            auto const blocks = blocks_of_own_file(ctx, storage, what);
                            train_and_store(ctx, ctx.dmatrix(blocks, {.label = "target"}), storage);
                          },
                          with}
        .fit();
  }
  if (what == "models") {
    return XGBoostTrainer{
        [storage](XGBoostContext& ctx) { train_and_store(ctx, ctx.dmatrix("train", {.label = "target"}), storage); },
        with}
        .fit();
  }
  auto params = parameters(what == "signal" ? 1'000'000 : 12);
  params.checkpoint_frequency = 1;
  params.custom_objective = loss_that_goes_wrong(what);
  return XGBoostTrainer{params, with}.fit();
}

}  // namespace

auto main(int argc, char** argv) -> int { return run_on_ranks(argc, argv, fitted); }
