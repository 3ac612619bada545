// SPDX-License-Identifier: Apache-2.0
// A training of XGBoostBackend, small enough for tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <raytrain/backend/xgboost.hpp>
#include <raytrain/trainer.hpp>

#include "../support/temporary_folder.hpp"

namespace raytrain::testing {

using XGBoostTrainer = Trainer<XGBoostBackend>;

/// Two features that matter together, one that matters a little, and one that does not.
[[nodiscard]] inline auto sample(std::size_t rows, unsigned seed) -> Dataset {
  std::mt19937 random{seed};
  std::normal_distribution<float> normal;
  std::vector<float> features(rows * 3);
  std::vector<std::int32_t> noise(rows);
  std::vector<std::uint8_t> target(rows);
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t i = 0; i < 3; ++i) features[row * 3 + i] = normal(random);
    noise[row] = static_cast<std::int32_t>(random() % 100);
    target[row] = features[row * 3] * features[row * 3 + 1] + 0.3F * features[row * 3 + 2] > 0 ? 1 : 0;
  }
  return Dataset::from_columns({{"x", features, {3}}, {"noise", noise}, {"target", target}});
}

[[nodiscard]] inline auto parameters(int rounds = 10) -> XGBoostParams {
  return {.label = "target",
          .objective = "binary:logistic",
          .eval_metric = {"logloss", "auc"},
          .max_depth = 4,
          .num_boost_round = rounds};
}

[[nodiscard]] inline auto config(TemporaryFolder const& folder, int workers, XGBoostMode mode = XGBoostMode::automatic)
    -> TrainerConfig<XGBoostBackend> {
  return {.scaling = {.num_workers = workers, .resources_per_worker = {.cpus = 1}},
          .run = {.name = "r", .storage_path = folder.path()},
          .datasets = {{"train", sample(3000, 1)}, {"valid", sample(1000, 2)}},
          .backend = {.mode = mode}};
}

[[nodiscard]] inline auto model_of(Result const& result) -> std::string {
  return std::string{text_of(result.checkpoint().value().read(booster_file_name))};
}

}  // namespace raytrain::testing
