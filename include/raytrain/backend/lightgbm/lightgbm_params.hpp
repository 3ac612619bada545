// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <raytrain/backend/boosting/detail/input_checks.hpp>

namespace raytrain {

/// What the ready-made training of `LightGBMBackend` trains: LightGBM's own names and defaults.
struct LightGBMParams {
  std::string label{"label"};  ///< Column of what is to be predicted.
  std::string weight{};        ///< Column of the rows' weights; empty: all 1.
  /// Column of query ids, for ranking; empty: none. Workers get whole groups, and each at least one.
  std::string group{};
  std::vector<std::string> categorical{};  ///< Features whose values are categories, from 0 on.
  std::string objective{"regression"};
  std::vector<std::string> metric{};  ///< On every dataset, in each round; empty: the objective's own.
  std::string boosting{"gbdt"};
  int num_leaves = 31;  ///< Leaves of a tree, at least 2.
  int max_depth = -1;   ///< Depth of a tree; -1: no limit.
  double learning_rate = 0.1;
  int min_data_in_leaf = 20;
  double min_sum_hessian_in_leaf = 1e-3;
  double bagging_fraction = 1;  ///< Share of the rows, above 0 to 1; counts with `bagging_freq`.
  int bagging_freq = 0;         ///< Other rows every so many rounds; 0: all rows, always.
  double feature_fraction = 1;  ///< Share of the features in each tree, above 0 to 1.
  double lambda_l1 = 0;
  double lambda_l2 = 0;
  double min_gain_to_split = 0;
  int max_bin = 255;
  int num_class = 1;         ///< For multiclass and multiclassova.
  int num_iterations = 100;  ///< Rounds in all, those before a restart included; at least 1.
  /// Ends when the last metric on the last dataset has not become better for that many rounds; 0: never.
  int early_stopping_rounds = 0;
  int checkpoint_frequency = 0;  ///< A checkpoint every so many rounds, and the last one; 0: the last one only.
  std::filesystem::path initial_model{};  ///< A new run boosts it further; empty: none.
  /// Any other parameter of LightGBM by its name; one that LightGBM does not know is an error.
  std::map<std::string, std::string> params{};

  /// Errors: `invalid_config`, naming the field, its value and what to write instead.
  void validate() const {
    detail::ParamChecks const check{"LightGBMParams"};
    check.not_empty("label", label, "name the column of what is to be predicted");
    check.not_empty("objective", objective, "write binary or regression");
    check.at_least("num_leaves", num_leaves, 2);
    check.at_least("max_depth", max_depth, -1);
    check.at_least("min_data_in_leaf", min_data_in_leaf, 0);
    check.at_least("min_sum_hessian_in_leaf", min_sum_hessian_in_leaf, 0);
    check.at_least("bagging_freq", bagging_freq, 0);
    check.at_least("lambda_l1", lambda_l1, 0);
    check.at_least("lambda_l2", lambda_l2, 0);
    check.at_least("min_gain_to_split", min_gain_to_split, 0);
    check.at_least("max_bin", max_bin, 2);
    check.at_least("num_class", num_class, 1);
    check.at_least("num_iterations", num_iterations, 1);
    check.at_least("early_stopping_rounds", early_stopping_rounds, 0);
    check.at_least("checkpoint_frequency", checkpoint_frequency, 0);
    check.share("bagging_fraction", bagging_fraction);
    check.share("feature_fraction", feature_fraction);
    check.learning_rate("learning_rate", learning_rate, 0.1);
    auto own = named();
    for (auto const* const field : {"metric", "early_stopping_rounds"}) own.try_emplace(field);
    for (auto const* const rule : {"first_metric_only", "early_stopping_min_delta"}) {
      if (!params.contains(rule)) continue;
      check.refuse(
          "params", fmt::format("holds '{}', a rule of LightGBM's own early stopping, which is not used", rule),
          "leave it out: early_stopping_rounds looks at the last metric on the last dataset, whatever it gains");
    }
    check.named(params, own, std::array{"seed", "num_threads", "num_machines"});
  }

  /// All that LightGBM is given of the fields, but for the metrics and `params`.
  [[nodiscard]] auto named() const -> std::map<std::string, std::string> {
    auto const text = [](auto value) { return fmt::format("{}", value); };
    return {
        {"objective", objective},
        {"boosting", boosting},
        {"num_leaves", text(num_leaves)},
        {"max_depth", text(max_depth)},
        {"learning_rate", text(learning_rate)},
        {"min_data_in_leaf", text(min_data_in_leaf)},
        {"min_sum_hessian_in_leaf", text(min_sum_hessian_in_leaf)},
        {"bagging_fraction", text(bagging_fraction)},
        {"bagging_freq", text(bagging_freq)},
        {"feature_fraction", text(feature_fraction)},
        {"lambda_l1", text(lambda_l1)},
        {"lambda_l2", text(lambda_l2)},
        {"min_gain_to_split", text(min_gain_to_split)},
        {"max_bin", text(max_bin)},
        {"num_class", text(num_class)},
        {"num_iterations", text(num_iterations)},
        {"early_stopping_round", text(early_stopping_rounds)},
    };
  }

  /// All parameters by name.
  [[nodiscard]] auto all() const -> std::map<std::string, std::string> {
    auto all = named();
    if (!metric.empty()) all["metric"] = fmt::format("{}", fmt::join(metric, ","));
    all.insert(params.begin(), params.end());
    return all;
  }
};

}  // namespace raytrain
