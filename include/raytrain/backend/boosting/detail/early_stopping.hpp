// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include <raytrain/backend/boosting/predictions.hpp>
#include <raytrain/core/error.hpp>

namespace raytrain::detail {

/// Whether the metric of an `Evaluation` grows as a model becomes better.
///
/// Source: the documentation of XGBoost's and of LightGBM's metrics.
[[nodiscard]] inline auto is_better_when_larger(std::string_view evaluation) -> bool {
  if (evaluation.ends_with("-interval-regression-accuracy")) return true;
  if (evaluation.ends_with('-')) evaluation.remove_suffix(1);  // "ndcg@5-": queries without a relevant row count as 0
  auto metric = evaluation.substr(evaluation.rfind('-') + 1);
  metric = metric.substr(0, metric.find('@'));
  constexpr std::array<std::string_view, 9> larger{"ams", "auc",  "aucpr", "auc_mu", "average_precision",
                                                   "map", "ndcg", "pre",   "r2"};
  return std::ranges::find(larger, metric) != larger.end();
}

/// Names of a model's attributes, as XGBoost's own packages call them.
inline constexpr auto best_round_name = "best_iteration";
inline constexpr auto best_score_name = "best_score";

/// Attribute of a model: the `Evaluation` that the best score is of.
inline constexpr auto best_evaluation_name = "raytrain_best_evaluation";

/// Attribute of a model of which it was reported that there is nothing more to learn.
inline constexpr auto learnt_all_name = "raytrain_learnt_all";

/// A model's attribute as a number. Errors: `invalid_data` when it is none: the model may come from anywhere.
template <class T, class Booster>
[[nodiscard]] auto number_in(Booster const& booster, char const* attribute) -> T {
  std::string const text = booster.attribute(attribute);
  T value{};
  auto const* const end = text.data() + text.size();
  auto const read = std::from_chars(text.data(), end, value);
  if (read.ec == std::errc{} && read.ptr == end) return value;
  throw Error{Errc::invalid_data, "reading the model's attribute '" + std::string{attribute} + "'",
              "it is '" + text + "', which is no number", "use a model as XGBoost or LightGBM has written it"};
}

/// How many rounds predict; 0: all.
///
/// Errors: `invalid_config` when there is no best round; `invalid_data` when it is no number.
template <class Booster>
[[nodiscard]] auto predicted_rounds(Booster const& booster, PredictedRounds rounds) -> int {
  if (rounds == PredictedRounds::all) return 0;
  if (booster.attribute(best_round_name).empty()) {
    throw Error{Errc::invalid_config, "PredictorOptions::rounds", "is best, and the model has no best round",
                "train it with early_stopping_rounds, or predict by PredictedRounds::all"};
  }
  return number_in<int>(booster, best_round_name) + 1;
}

/// Ends a training whose last metric does not become better any more.
class EarlyStoppingRounds {
 public:
  explicit EarlyStoppingRounds(int rounds) : rounds_{rounds} {}

  /// Goes on where a model that was stored has stood.
  template <class Booster>
  void restore(Booster const& booster) {
    if (booster.attribute(best_round_name).empty() || booster.attribute(best_score_name).empty()) return;
    auto const best = number_in<double>(booster, best_score_name);
    if (std::isnan(best)) return;
    best_round_ = number_in<int>(booster, best_round_name);
    best_ = best;
    best_of_ = booster.attribute(best_evaluation_name);
  }

  /// True when this round is the last one. A NaN is no better than anything: where there was nothing else yet, the
  /// training goes on. The best value of another `Evaluation` is forgotten.
  template <class Booster>
  [[nodiscard]] auto ends(int round, Evaluation const& last, Booster& booster) -> bool {
    if (rounds_ == 0) return false;
    if (!best_of_.empty() && best_of_ != last.name) forget(booster);
    auto const better = is_better_when_larger(last.name) ? last.value > best_ : last.value < best_;
    if (better || (best_round_ < 0 && !std::isnan(last.value))) {
      best_round_ = round;
      best_ = last.value;
      best_of_ = last.name;
      booster.set_attribute(best_round_name, std::to_string(round));
      booster.set_attribute(best_score_name, fmt::format("{}", best_));
      booster.set_attribute(best_evaluation_name, best_of_);
    }
    return is_over(round);
  }

  [[nodiscard]] auto is_over(int round) const noexcept -> bool {
    return rounds_ > 0 && best_round_ >= 0 && round - best_round_ >= rounds_;
  }

 private:
  template <class Booster>
  void forget(Booster& booster) {
    best_round_ = -1;
    best_of_.clear();
    for (auto const* const name : {best_round_name, best_score_name, best_evaluation_name}) {
      booster.set_attribute(name, "");
    }
  }

  int rounds_;
  int best_round_ = -1;
  double best_ = 0;
  std::string best_of_;  ///< Name of the `Evaluation`; empty: none yet, or of a model that does not tell.
};

}  // namespace raytrain::detail
