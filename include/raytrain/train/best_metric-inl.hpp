// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

#include <raytrain/config/checkpoint_config.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/train/best_metric.hpp>
#include <raytrain/train/train_context.hpp>

namespace raytrain {

RAYTRAIN_INLINE auto BestMetric::note(double metric) -> bool {
  auto const is_better = mode_ == ScoreOrder::min ? metric < best() - min_delta_ : metric > best() + min_delta_;
  if (is_better || (std::isnan(best()) && !std::isnan(metric))) {
    state_ = {metric, 0};
    return true;
  }
  ++state_[1];
  return false;
}

RAYTRAIN_INLINE auto BestMetric::note(TrainContext& ctx, double metric) -> bool { return note(ctx.average(metric)); }

}  // namespace raytrain
