// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>

#include <raytrain/backend/xgboost.hpp>
#include <raytrain/trainer.hpp>

#include "../support/thrown_error.hpp"
#include "xgboost_run.hpp"

namespace raytrain::testing {

/// What the ready-made training says that it does not take.
[[nodiscard]] inline auto refused(XGBoostParams params, TrainerConfig<XGBoostBackend> const& with) -> std::string {
  return thrown_error([&] { XGBoostTrainer{std::move(params), with}.fit(); });
}

}  // namespace raytrain::testing
