// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string_view>
#include <utility>

#include <raytrain/backend/backend.hpp>
#include <raytrain/backend/boosting/detail/booster_gpu.hpp>
#include <raytrain/backend/boosting/detail/input_checks.hpp>
#include <raytrain/backend/xgboost/detail/xgboost_gpu.hpp>
#include <raytrain/backend/xgboost/xgboost_context.hpp>
#include <raytrain/backend/xgboost/xgboost_params.hpp>
#include <raytrain/backend/xgboost/xgboost_training.hpp>
#include <raytrain/config/scaling_config.hpp>
#include <raytrain/train/worker_setup.hpp>

namespace raytrain {

/// XGBoost, with its workers made known to each other: `Trainer<XGBoostBackend> trainer{XGBoostParams{...}, {...}}`
/// boosts by itself; with a training function of one's own, that function gets an `XGBoostContext`.
class XGBoostBackend {
 public:
  struct Config {
    XGBoostMode mode = XGBoostMode::automatic;
  };
  using Context = XGBoostContext;
  using Params = XGBoostParams;

  static constexpr std::string_view name = "xgboost";
  static constexpr Launch default_launch = Launch::threads;

  explicit XGBoostBackend(Config const&) {}

  /// Errors: with `ScalingConfig::use_gpu` as `detail::XGBoostBuild::check_gpus`.
  void on_start(ScalingConfig const& scaling) {
    detail::refuse_virtual_shards(scaling, name);
    scaling_ = scaling;
    if (scaling.use_gpu) detail::XGBoostBuild::here().check_gpus(scaling);
  }
  auto make_context(WorkerSetup setup) -> Context {
    auto const gpu = detail::own_booster_gpu(scaling_, setup);
    return Context{std::move(setup), gpu, shared_};
  }
  void on_shutdown() noexcept { shared_->tracker.reset(); }

  /// The ready-made training.
  static void train(XGBoostContext& ctx, XGBoostParams const& params) { xgboost_train(ctx, params); }

  /// On threads one booster with the rows and the cores of all, unless the settings say otherwise.
  static auto trains_in_one_worker(Config const& config) -> bool { return config.mode != BoostingMode::distributed; }

 private:
  ScalingConfig scaling_;
  std::shared_ptr<detail::XGBoostShared> shared_ = std::make_shared<detail::XGBoostShared>();
};

static_assert(ReadyMadeBackend<XGBoostBackend>);

}  // namespace raytrain
