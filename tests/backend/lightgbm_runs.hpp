// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>

#include <raytrain/backend/lightgbm.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/trainer.hpp>

#include "../support/temporary_folder.hpp"
#include "../support/thrown_error.hpp"
#include "boosting_samples.hpp"

namespace raytrain::testing {

using LightGBMTrainer = Trainer<LightGBMBackend>;

[[nodiscard]] inline auto parameters(int rounds = 20) -> LightGBMParams {
  return {.label = "target",
          .objective = "binary",
          .metric = {"binary_logloss", "auc"},
          .num_leaves = 15,
          .num_iterations = rounds};
}

[[nodiscard]] inline auto config(TemporaryFolder const& folder, int workers,
                                 LightGBMMode mode = LightGBMMode::automatic) -> TrainerConfig<LightGBMBackend> {
  return boosting_config<LightGBMBackend>(folder, workers, mode);
}

[[nodiscard]] inline auto model_of(Result const& result) -> std::string {
  return std::string{text_of(result.checkpoint().value().read(lightgbm_file_name))};
}

[[nodiscard]] inline auto refused(LightGBMParams params, TrainerConfig<LightGBMBackend> const& with) -> std::string {
  return thrown_error([&] { LightGBMTrainer{std::move(params), with}.fit(); });
}

}  // namespace raytrain::testing
