// SPDX-License-Identifier: Apache-2.0
// A training of XGBoostBackend, small enough for tests.
#pragma once

#include <string>

#include <raytrain/backend/xgboost.hpp>
#include <raytrain/trainer.hpp>

#include "../support/temporary_folder.hpp"
#include "boosting_samples.hpp"

namespace raytrain::testing {

using XGBoostTrainer = Trainer<XGBoostBackend>;

[[nodiscard]] inline auto parameters(int rounds = 10) -> XGBoostParams {
  return {.label = "target",
          .objective = "binary:logistic",
          .eval_metric = {"logloss", "auc"},
          .max_depth = 4,
          .num_boost_round = rounds};
}

[[nodiscard]] inline auto config(TemporaryFolder const& folder, int workers, XGBoostMode mode = XGBoostMode::automatic)
    -> TrainerConfig<XGBoostBackend> {
  return boosting_config<XGBoostBackend>(folder, workers, mode);
}

[[nodiscard]] inline auto model_of(Result const& result) -> std::string {
  return std::string{text_of(result.checkpoint().value().read(booster_file_name))};
}

}  // namespace raytrain::testing
