// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <raytrain/backend/xgboost/booster.hpp>
#include <raytrain/backend/xgboost/dmatrix.hpp>
#include <raytrain/backend/xgboost/xgboost_context.hpp>
#include <raytrain/backend/xgboost/xgboost_params.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/metrics.hpp>
#include <raytrain/core/rank.hpp>
#include <raytrain/core/stopped.hpp>

namespace raytrain {

namespace detail {

/// Whether the metric of an `Evaluation` grows as a model becomes better.
///
/// Source: XGBoost's documentation of its metrics.
[[nodiscard]] inline auto is_better_when_larger(std::string_view evaluation) -> bool {
  auto const metric = evaluation.substr(evaluation.rfind('-') + 1);
  constexpr std::array<std::string_view, 5> larger{"auc", "aucpr", "ndcg", "map", "pre"};
  return std::ranges::any_of(larger,
                             [&](auto name) { return metric == name || metric.starts_with(std::string{name} + "@"); });
}

/// Ends a training whose last metric does not become better any more.
class EarlyStopping {
 public:
  explicit EarlyStopping(int rounds) : rounds_{rounds} {}

  /// Goes on where a model that was stored has stood.
  void restore(Booster const& booster) {
    auto const round = booster.attribute("best_iteration");
    auto const score = booster.attribute("best_score");
    if (round.empty() || score.empty()) return;
    best_round_ = std::stoi(round);
    best_ = std::stod(score);
  }

  /// True when this round is the last one.
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

inline void check_labels(DMatrix const& train, XGBoostParams const& params) {
  auto const labels = train.labels();
  auto const refuse = [&](auto found, std::string_view wanted) {
    throw Error{Errc::invalid_data, fmt::format("training with the objective {}", params.objective),
                fmt::format("row {} of the label column '{}' is {}, and must be {}", found - labels.begin(),
                            params.label, *found, wanted),
                "choose another objective, or another label column"};
  };
  if (params.objective.starts_with("binary:")) {
    auto const bad = std::ranges::find_if(labels, [](float label) { return label != 0 && label != 1; });
    if (bad != labels.end()) refuse(bad, "0 or 1");
  } else if (params.objective.starts_with("multi:")) {
    auto const classes = static_cast<float>(params.num_class);
    auto const bad = std::ranges::find_if(
        labels, [&](float label) { return !(label >= 0 && label < classes) || label != std::floor(label); });
    if (bad != labels.end())
      refuse(bad, fmt::format("a class from 0 to {} (XGBoostParams::num_class - 1)", params.num_class - 1));
  }
}

/// One worker's part of boosting, or all of it where one boosts for all.
class XGBoostTraining {
 public:
  XGBoostTraining(XGBoostContext& ctx, XGBoostParams const& params)
      : ctx_{ctx}, params_{params}, stopping_{params.early_stopping_rounds} {
    add("train");
    for (auto const& name : ctx.dataset_names()) {
      if (name != "train") add(name);
    }
    check_labels(matrices_.front(), params);
  }

  /// `tell`: of each round, to the workers that stand by.
  template <class Tell>
  void run(Tell const& tell) {
    std::vector<DMatrix const*> all;
    std::vector<std::pair<std::string, DMatrix const*>> named;
    auto name = names_.begin();
    for (auto const& matrix : matrices_) {
      all.push_back(&matrix);
      named.emplace_back(*name++, &matrix);
    }
    auto booster = ctx_.booster(params_, all);
    stopping_.restore(booster);
    if (stopping_.is_over(booster.rounds() - 1)) return;
    auto const end = ctx_.initial_rounds(booster) + params_.num_boost_round;
    for (int round = booster.rounds(); round < end; ++round) {
      ctx_.together([&] { booster.update(round, matrices_.front()); });
      auto const evaluations = ctx_.together([&] { return booster.evaluate(round, named); });
      auto const stops = !evaluations.empty() && stopping_.ends(round, evaluations.back(), booster);
      auto const last = stops || round + 1 == end;
      auto const due = params_.checkpoint_frequency > 0 && (round + 1) % params_.checkpoint_frequency == 0;
      auto const stop = ctx_.agree_on_stop();
      Metrics metrics{{"round", std::int64_t{round}}};
      for (auto const& evaluation : evaluations) metrics.set(evaluation.name, evaluation.value);
      tell(metrics, last || due || stop);
      if (last || due || stop) {
        ctx_.report(metrics, save(booster));
      } else {
        ctx_.report(metrics);
      }
      if (last || stop) return;
    }
  }

 private:
  void add(std::string const& name) {
    matrices_.push_back(ctx_.dmatrix(name, {.label = params_.label,
                                            .weight = params_.weight,
                                            .group = params_.group,
                                            .categorical = params_.categorical,
                                            .max_bin = name == "train" ? bins() : 0}));
    names_.push_back(name);
  }

  /// Bins follow from how the rows are divided among workers, and a checkpoint's trees split between those of its own.
  [[nodiscard]] auto bins() const -> int {
    auto const other_bins = ctx_.checkpoint() && ctx_.checkpoint()->world_size() != ctx_.world_size();
    return params_.needs_bins_only() && !other_bins ? params_.max_bin : 0;
  }

  XGBoostContext& ctx_;
  XGBoostParams const& params_;
  EarlyStopping stopping_;
  std::list<DMatrix> matrices_;
  std::vector<std::string> names_;
};

}  // namespace detail

/// The ready-made training: boosts `num_boost_round` rounds on the dataset "train", evaluates every dataset in each
/// round, reports the metrics ("valid-auc") and the round, and keeps the model in checkpoints as "booster.ubj".
///
/// Errors: as `XGBoostContext::dmatrix` and `booster`; `invalid_data` for labels that the objective cannot have.
inline void xgboost_train(XGBoostContext& ctx, XGBoostParams const& params) {
  params.validate();
  if (!ctx.choose_one_booster()) return detail::XGBoostTraining{ctx, params}.run([](Metrics const&, bool) {});

  auto& board = ctx.board();
  if (ctx.world_rank() == Rank{0}) {
    struct End {
      detail::RoundBoard& board;
      bool complete = false;
      ~End() { board.end(complete); }
    } end{board};
    detail::XGBoostTraining{ctx, params}.run([&](Metrics const& metrics, bool has_checkpoint) {
      board.publish({metrics, has_checkpoint});
    });
    end.complete = true;
    return;
  }
  std::size_t next = 0;
  for (auto rounds = board.wait(next); !rounds.empty(); rounds = board.wait(next)) {
    for (auto const& round : rounds) {
      if (round.has_checkpoint) {
        ctx.report(round.metrics, CheckpointDraft::replicated([](CheckpointDraft&) {}));
      } else {
        ctx.report(round.metrics);
      }
    }
    next += rounds.size();
  }
  if (!board.is_complete()) throw Stopped{};
}

}  // namespace raytrain
