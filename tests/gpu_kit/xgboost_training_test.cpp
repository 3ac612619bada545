// SPDX-License-Identifier: Apache-2.0
// What XGBoost learns on a GPU.
#include <raytrain/backend/xgboost.hpp>

#include <optional>

#include <doctest/doctest.h>

#include <raytrain/trainer.hpp>

#include "../backend/xgboost_run.hpp"
#include "../support/temporary_folder.hpp"

namespace {

using namespace raytrain;
using namespace raytrain::testing;

auto auc_of_training(bool on_gpu, BoostingMode mode) -> double {
  TemporaryFolder const folder;
  auto with = config(folder, 1, mode);
  with.scaling.use_gpu = on_gpu;
  return XGBoostTrainer{parameters(), with}.fit().metrics.number("valid-auc").value_or(0);
}

}  // namespace

TEST_CASE("XGBoost learns on a GPU what it learns on the CPU") {
  auto const on_cpu = auc_of_training(false, BoostingMode::automatic);
  CHECK(on_cpu > 0.9);
  for (auto const mode : {BoostingMode::automatic, BoostingMode::distributed}) {
    CHECK(auc_of_training(true, mode) == doctest::Approx(on_cpu).epsilon(0.01));
  }
}

TEST_CASE("a run that XGBoost began on a GPU goes on there, and on the CPU") {
  for (bool const then_on_gpu : {true, false}) {
    TemporaryFolder const folder;
    auto with = config(folder, 1);
    with.scaling.use_gpu = true;
    CHECK(XGBoostTrainer{parameters(5), with}.fit().state == RunState::finished);
    with.scaling.use_gpu = then_on_gpu;
    auto const result = XGBoostTrainer{parameters(10), with}.fit();
    CHECK(result.metrics.number("valid-auc").value_or(0) > 0.9);
    CHECK(result.checkpoint().has_value());
  }
}

TEST_CASE("a worker of XGBoost is told its GPU") {
  TemporaryFolder const folder;
  auto with = config(folder, 1);
  with.scaling.use_gpu = true;
  std::optional<int> gpu;
  XGBoostTrainer{[&](XGBoostContext& ctx) { gpu = ctx.gpu(); }, with}.fit();
  CHECK(gpu == 0);
}
