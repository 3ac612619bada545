// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <list>

#include <raytrain/backend/boosting/detail/boosting_rounds.hpp>
#include <raytrain/backend/boosting/detail/input_checks.hpp>
#include <raytrain/backend/lightgbm/lightgbm_booster.hpp>
#include <raytrain/backend/lightgbm/lightgbm_context.hpp>
#include <raytrain/backend/lightgbm/lightgbm_dataset.hpp>
#include <raytrain/backend/lightgbm/lightgbm_params.hpp>

namespace raytrain {

namespace detail {

[[nodiscard]] inline auto label_rule(LightGBMParams const& params) -> LabelRule {
  auto const& objective = params.objective;
  auto const kind = objective == "binary"                                           ? LabelKind::binary
                    : objective.starts_with("multiclass") || objective == "softmax" ? LabelKind::classes
                                                                                    : LabelKind::number;
  return {kind, params.num_class, "LightGBMParams", objective, params.label};
}

}  // namespace detail

/// The ready-made training: boosts `num_iterations` rounds on the dataset "train", evaluates every dataset in each
/// round, reports the metrics ("valid-auc") and the round, and keeps the model in checkpoints as "booster.txt".
///
/// Errors: as `LightGBMContext::dataset` and `booster`; `invalid_data` for labels that the objective cannot have;
///         `invalid_config` for early stopping without a metric.
inline void lightgbm_train(LightGBMContext& ctx, LightGBMParams const& params) {
  params.validate();
  auto const train = ctx.dataset("train", params);
  detail::check_labels(train.labels(), detail::label_rule(params), "train");
  std::list<LightGBMDataset> others;
  LightGBMBooster::Datasets named;
  for (auto const& name : ctx.dataset_names()) {
    if (name == "train") continue;
    auto const& other = others.emplace_back(ctx.dataset(name, params, &train));
    detail::check_labels(other.labels(), detail::label_rule(params), name);
    named.emplace_back(name, &other);
  }
  auto booster = ctx.booster(params, train, named);
  auto const boost = [&](int) {
    auto const learns = booster.update();
    ctx.check_log();
    return learns;
  };
  detail::boost_rounds(ctx, booster,
                       {.end = ctx.initial_rounds(booster) + params.num_iterations,
                        .params = "LightGBMParams",
                        .early_stopping_rounds = params.early_stopping_rounds,
                        .checkpoint_frequency = params.checkpoint_frequency,
                        .boost = boost,
                        .evaluate = [&](int) { return ctx.evaluate(booster); },
                        .save = [&] { return save(booster); }});
}

}  // namespace raytrain
