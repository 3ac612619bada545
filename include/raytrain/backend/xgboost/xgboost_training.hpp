// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <raytrain/backend/boosting/detail/boosting_rounds.hpp>
#include <raytrain/backend/boosting/detail/input_checks.hpp>
#include <raytrain/backend/xgboost/booster.hpp>
#include <raytrain/backend/xgboost/detail/xgboost_gpu.hpp>
#include <raytrain/backend/xgboost/dmatrix.hpp>
#include <raytrain/backend/xgboost/xgboost_context.hpp>
#include <raytrain/backend/xgboost/xgboost_params.hpp>
#include <raytrain/checkpoint/checkpoint_draft.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/xxh3.hpp>

namespace raytrain {

namespace detail {

[[nodiscard]] inline auto label_rule(XGBoostParams const& params) -> LabelRule {
  auto const kind = params.objective.starts_with("binary:")  ? LabelKind::binary
                    : params.objective.starts_with("multi:") ? LabelKind::classes
                                                             : LabelKind::number;
  return {kind, params.num_class, "XGBoostParams", params.objective, params.label};
}

/// One worker's part of boosting.
class XGBoostTraining {
 public:
  XGBoostTraining(XGBoostContext& ctx, XGBoostParams const& params)
      : ctx_{ctx}, params_{params}, bins_digest_{digest_of_bins()} {
    add("train");
    for (auto const& name : ctx.dataset_names()) {
      if (name != "train") add(name);
    }
    auto name = names_.begin();
    for (auto const& matrix : matrices_) check_labels(matrix.labels(), label_rule(params), *name++);
  }

  void run() {
    std::vector<DMatrix const*> all;
    std::vector<std::pair<std::string, DMatrix const*>> named;
    auto name = names_.begin();
    for (auto const& matrix : matrices_) {
      all.push_back(&matrix);
      named.emplace_back(*name++, &matrix);
    }
    auto booster = ctx_.booster(params_, all);
    auto const boost_one = [&](int round) {
      boost(booster, round);
      ctx_.check_log();
      return true;
    };
    auto const evaluate = [&](int round) {
      auto evaluations = booster.evaluate(round, named);
      ctx_.check_log();
      return evaluations;
    };
    boost_rounds(ctx_, booster,
                 {.end = ctx_.initial_rounds(booster) + params_.num_boost_round,
                  .params = "XGBoostParams",
                  .early_stopping_rounds = params_.early_stopping_rounds,
                  .checkpoint_frequency = params_.checkpoint_frequency,
                  .boost = boost_one,
                  .evaluate = evaluate,
                  .save = [&] { return saved(booster); }});
  }

 private:
  /// Metadata of a checkpoint: the digest of the bins that all of its trees split between.
  static constexpr auto bins_digest_name = "raytrain_bins";

  void add(std::string const& name) {
    matrices_.push_back(
        ctx_.dmatrix(name, {.label = params_.label,
                            .weight = params_.weight,
                            .group = params_.group,
                            .categorical = params_.categorical,
                            .max_bin = name == "train" && !bins_digest_.empty() ? params_.max_bin : 0}));
    names_.push_back(name);
  }

  /// Of what bins follow from: their number, and the rows, as they are divided among workers, by `Dataset::digest`.
  /// Empty where values are needed: for a checkpoint's trees that split between other bins, and with a GPU, on which
  /// XGBoost makes the bins from the values. A group operation.
  [[nodiscard]] auto digest_of_bins() const -> std::string {
    if (!params_.needs_bins_only() || ctx_.gpu() || ctx_.begins_from_other_run()) return "";
    auto const rows = ctx_.all_gather(ctx_.dataset_shard("train").part().digest());
    auto digest = xxh3_of(bytes_of(fmt::format("{} {}", params_.max_bin, fmt::join(rows, " "))));
    if (!ctx_.checkpoint()) return digest;
    auto const& metadata = ctx_.checkpoint()->metadata();
    auto const before = metadata.find(bins_digest_name);
    return before != metadata.end() && before->second == digest ? digest : "";
  }

  [[nodiscard]] auto saved(Booster const& booster) const -> CheckpointDraft {
    auto draft = save(booster);
    if (!bins_digest_.empty()) draft.set_metadata(bins_digest_name, bins_digest_);
    return draft;
  }

  static void check_finite(std::string_view what, std::span<float const> values) {
    auto const bad = std::ranges::find_if(values, [](float value) { return !std::isfinite(value); });
    if (bad == values.end()) return;
    throw Error{Errc::invalid_data, "XGBoostParams::custom_objective",
                fmt::format("its {} {} is {}", what, bad - values.begin(), *bad),
                "keep logarithms and divisors from 0"};
  }

  /// Each row's values, of which there is one for each class.
  static void weigh(std::span<float const> weights, std::span<float> values) {
    for (std::size_t i = 0; i < values.size() && !weights.empty(); ++i) {
      values[i] *= weights[i * weights.size() / values.size()];
    }
  }

  void boost(Booster& booster, int round) {
    auto const& train = matrices_.front();
    if (!params_.custom_objective) return booster.update(round, train);
    auto const margins = booster.training_margins(train);
    std::vector<float> gradients(margins.size());
    std::vector<float> hessians(margins.size());
    params_.custom_objective(margins, train.labels(), gradients, hessians);
    check_finite("gradient", gradients);
    check_finite("hessian", hessians);
    weigh(train.weights(), gradients);
    weigh(train.weights(), hessians);
    // Only where the loss has not thrown on any worker.
    ctx_.together([&] { booster.boost(round, train, {gradients, hessians}); });
  }

  XGBoostContext& ctx_;
  XGBoostParams const& params_;
  std::string bins_digest_;  ///< As `digest_of_bins`.
  std::list<DMatrix> matrices_;
  std::vector<std::string> names_;
};

}  // namespace detail

/// The ready-made training: boosts `num_boost_round` rounds on the dataset "train", evaluates every dataset in each
/// round, reports the metrics ("valid-auc") and the round, and keeps the model in checkpoints as "booster.ubj".
///
/// Errors: as `XGBoostContext::dmatrix` and `booster`; `invalid_data` for labels that the objective cannot have;
///         `invalid_config` for early stopping without a metric.
inline void xgboost_train(XGBoostContext& ctx, XGBoostParams const& params) {
  params.validate();
  if (ctx.gpu()) (void)detail::XGBoostBuild::here().gpu_parameters(params, *ctx.gpu());  // before it takes rows
  detail::XGBoostTraining{ctx, params}.run();
}

}  // namespace raytrain
