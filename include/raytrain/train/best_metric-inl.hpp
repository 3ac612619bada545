// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>

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

RAYTRAIN_INLINE auto BestMetric::note(TrainContext& ctx, double metric) -> bool {
  auto const all = ctx.all_gather(metric);
  auto const first = all.front();
  auto const are_same = std::ranges::all_of(all, [&](double each) { return each == first; });
  return note(are_same ? first : std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size()));
}

}  // namespace raytrain
