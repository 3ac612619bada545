// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include <raytrain/backend/boosting/boosting_context.hpp>
#include <raytrain/backend/boosting/detail/early_stopping.hpp>
#include <raytrain/backend/boosting/predictions.hpp>
#include <raytrain/checkpoint/checkpoint_draft.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/metrics.hpp>

namespace raytrain::detail {

/// What the ready-made training does in a round, given its number, and how far it goes.
struct RoundPlan {
  int end;                  ///< One past the number of the last round.
  std::string_view params;  ///< Name of the struct that has `early_stopping_rounds`.
  int early_stopping_rounds;
  int checkpoint_frequency;
  std::function<bool(int)> boost;                        ///< False when the library finds nothing more to learn.
  std::function<std::vector<Evaluation>(int)> evaluate;  ///< Every metric on every dataset.
  std::function<CheckpointDraft()> save;                 ///< The model.
};

/// Reports a round without a checkpoint. A stop that comes meanwhile ends the training with the next round, on which
/// all workers agree, and which keeps the model.
inline void report_and_go_on(BoostingContext& ctx, Metrics const& metrics) {
  try {
    ctx.report(metrics);
  } catch (Stopped const&) {
    return;
  }
}

/// Boosts a model round by round, evaluates and reports it, and keeps it in checkpoints.
///
/// Errors: `invalid_config` for early stopping where there is no metric.
template <class Booster>
void boost_rounds(BoostingContext& ctx, Booster& booster, RoundPlan const& plan) {
  EarlyStoppingRounds stopping{plan.early_stopping_rounds};
  bool warned = false;
  stopping.restore(booster);
  if (stopping.is_over(booster.rounds() - 1)) return;
  for (int round = booster.rounds(); round < plan.end; ++round) {
    auto const learns = ctx.together([&] { return plan.boost(round); });
    auto const learnt_all = !booster.attribute(learnt_all_name).empty();
    if (!learns && learnt_all) return;  // as was reported
    if (learns == learnt_all) booster.set_attribute(learnt_all_name, learns ? "" : "true");
    auto const evaluations = ctx.together([&] { return plan.evaluate(round); });
    if (evaluations.empty() && plan.early_stopping_rounds > 0) {
      throw Error{Errc::invalid_config, fmt::format("{}::early_stopping_rounds", plan.params),
                  fmt::format("is {}, and there is no metric to stop by", plan.early_stopping_rounds),
                  "name a metric, or write 0"};
    }
    auto const stops = !evaluations.empty() && stopping.ends(round, evaluations.back(), booster);
    if (!warned && plan.early_stopping_rounds > 0 && !evaluations.empty() && std::isnan(evaluations.back().value)) {
      warned = true;
      if (ctx.world_rank() == Rank{0}) {
        ctx.warn(fmt::format("early stopping: {} is NaN in round {}, which is never taken for better",
                             evaluations.back().name, round));
      }
    }
    auto const last = stops || !learns || round + 1 == plan.end;
    auto const due = plan.checkpoint_frequency > 0 && (round + 1) % plan.checkpoint_frequency == 0;
    auto const stop = ctx.agree_on_stop();
    Metrics metrics{{"round", std::int64_t{round}}};
    for (auto const& evaluation : evaluations) metrics.set(evaluation.name, evaluation.value);
    if (last || due || stop) {
      ctx.report(metrics, plan.save());
    } else {
      report_and_go_on(ctx, metrics);
    }
    if (last || stop) return;
  }
}

}  // namespace raytrain::detail
