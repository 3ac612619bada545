// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include <raytrain/backend/boosting/detail/input_checks.hpp>

namespace raytrain {

/// A custom loss: computes its first and second derivatives by the margins.
///
/// `labels` has one value for each of this worker's rows. The other spans have one value for each row and class, row by
/// row. `gradients` and `hessians` begin as zeros, and are multiplied by the rows' weights afterwards.
using XGBoostObjective = std::function<void(std::span<float const> margins, std::span<float const> labels,
                                            std::span<float> gradients, std::span<float> hessians)>;

/// What the ready-made training of `XGBoostBackend` trains: XGBoost's own names and defaults, but for `tree_method`.
struct XGBoostParams {
  std::string label{"label"};  ///< Column of what is to be predicted.
  std::string weight{};        ///< Column of the rows' weights, the same within a group; empty: all 1.
  /// Column of query ids, for ranking; empty: none. Workers get whole groups, and each at least one.
  std::string group{};
  std::vector<std::string> categorical{};  ///< Features whose values are categories, from 0 on.
  std::string objective{"reg:squarederror"};
  std::vector<std::string> eval_metric{};  ///< On every dataset, in each round; empty: the objective's own.
  std::string tree_method{"hist"};
  int max_depth = 6;
  double eta = 0.3;
  double subsample = 1;         ///< Share of the rows in each round, above 0 to 1.
  double colsample_bytree = 1;  ///< Share of the features in each tree, above 0 to 1.
  double min_child_weight = 1;
  double gamma = 0;
  double lambda = 1;
  double alpha = 0;
  int max_bin = 256;
  int num_class = 0;         ///< For multi:softmax and multi:softprob; 0: no such objective.
  int num_boost_round = 10;  ///< In all, those before a restart included; at least 1.
  /// Ends when the last metric on the last dataset has not become better for that many rounds; 0: never.
  int early_stopping_rounds = 0;
  int checkpoint_frequency = 0;  ///< A checkpoint every so many rounds, and the last one; 0: the last one only.
  std::filesystem::path initial_model{};  ///< A new run boosts it further; empty: none.
  XGBoostObjective custom_objective{};    ///< For the loss of `objective`, which still decides what is predicted.
  /// Any other parameter of XGBoost by its name; one that XGBoost does not know is an error.
  std::map<std::string, std::string> params{};

  /// Errors: `invalid_config`, naming the field, its value and what to write instead.
  void validate() const {
    detail::ParamChecks const check{"XGBoostParams"};
    check.not_empty("label", label, "name the column of what is to be predicted");
    check.not_empty("objective", objective, "write binary:logistic or reg:squarederror");
    check.at_least("max_depth", max_depth, 0);
    check.at_least("num_boost_round", num_boost_round, 1);
    check.at_least("early_stopping_rounds", early_stopping_rounds, 0);
    check.at_least("checkpoint_frequency", checkpoint_frequency, 0);
    check.at_least("max_bin", max_bin, 2);
    check.at_least("num_class", num_class, 0);
    check.at_least("min_child_weight", min_child_weight, 0);
    check.at_least("gamma", gamma, 0);
    check.at_least("lambda", lambda, 0);
    check.at_least("alpha", alpha, 0);
    check.share("subsample", subsample);
    check.share("colsample_bytree", colsample_bytree);
    check.learning_rate("eta", eta, 0.3);
    if (custom_objective && !group.empty())
      check.refuse("custom_objective", "is not told of groups, and XGBoostParams::group is '" + group + "'",
                   "boost in a training function of your own, by Booster::boost");
    if (objective.starts_with("multi:") && num_class < 2) {
      check.refuse("num_class", fmt::format("is {}, and the objective is '{}'", num_class, objective),
                   "write how many classes there are");
    }
    auto own = named();
    own.try_emplace("num_class");
    check.named(params, own, std::array{"seed", "random_state", "nthread", "n_jobs"});
  }

  /// Whether training on the bins of the values gives the very model that training on the values gives.
  [[nodiscard]] auto needs_bins_only() const -> bool {
    auto const decides_otherwise = [](auto const& param) {
      constexpr std::array<std::string_view, 4> names{"booster", "updater", "process_type", "device"};
      return std::ranges::find(names, std::string_view{param.first}) != names.end();
    };
    return tree_method == "hist" && weight.empty() && group.empty() && categorical.empty() && initial_model.empty() &&
           std::ranges::none_of(params, decides_otherwise);
  }

  /// All that is set by `XGBoosterSetParam`, but for the metrics and `params`.
  [[nodiscard]] auto named() const -> std::map<std::string, std::string> {
    auto const text = [](auto value) { return fmt::format("{}", value); };
    std::map<std::string, std::string> all{
        {"objective", objective},       {"tree_method", tree_method},
        {"max_depth", text(max_depth)}, {"eta", text(eta)},
        {"subsample", text(subsample)}, {"colsample_bytree", text(colsample_bytree)},
        {"gamma", text(gamma)},         {"min_child_weight", text(min_child_weight)},
        {"lambda", text(lambda)},       {"alpha", text(alpha)},
        {"max_bin", text(max_bin)},
    };
    if (num_class > 0) all["num_class"] = text(num_class);
    return all;
  }
};

}  // namespace raytrain
