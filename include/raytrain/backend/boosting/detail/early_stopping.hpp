// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include <raytrain/backend/boosting/predictions.hpp>

namespace raytrain::detail {

/// Whether the metric of an `Evaluation` grows as a model becomes better.
///
/// Source: the documentation of XGBoost's and of LightGBM's metrics.
[[nodiscard]] inline auto is_better_when_larger(std::string_view evaluation) -> bool {
  auto const metric = evaluation.substr(evaluation.rfind('-') + 1);
  constexpr std::array<std::string_view, 8> larger{"auc", "aucpr", "auc_mu", "average_precision",
                                                   "map", "ndcg",  "pre",    "r2"};
  return std::ranges::any_of(larger,
                             [&](auto name) { return metric == name || metric.starts_with(std::string{name} + "@"); });
}

/// Ends a training whose last metric does not become better any more.
class EarlyStopping {
 public:
  explicit EarlyStopping(int rounds) : rounds_{rounds} {}

  /// Goes on where a model that was stored has stood.
  template <class Booster>
  void restore(Booster const& booster) {
    auto const round = booster.attribute("best_iteration");
    auto const score = booster.attribute("best_score");
    if (round.empty() || score.empty()) return;
    best_round_ = std::stoi(round);
    best_ = std::stod(score);
  }

  /// True when this round is the last one.
  template <class Booster>
  [[nodiscard]] auto ends(int round, Evaluation const& last, Booster& booster) -> bool {
    if (rounds_ == 0) return false;
    auto const better = best_round_ < 0 || (is_better_when_larger(last.name) ? last.value > best_ : last.value < best_);
    if (better) {
      best_round_ = round;
      best_ = last.value;
      booster.set_attribute("best_iteration", std::to_string(round));  // as XGBoost's own packages call them
      booster.set_attribute("best_score", fmt::format("{}", best_));
    }
    return is_over(round);
  }

  [[nodiscard]] auto is_over(int round) const noexcept -> bool {
    return rounds_ > 0 && best_round_ >= 0 && round - best_round_ >= rounds_;
  }

 private:
  int rounds_;
  int best_round_ = -1;
  double best_ = 0;
};

}  // namespace raytrain::detail
