// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <utility>

#include <raytrain/backend/backend.hpp>
#include <raytrain/backend/boosting/detail/booster_gpu.hpp>
#include <raytrain/backend/boosting/detail/input_checks.hpp>
#include <raytrain/backend/lightgbm/lightgbm_context.hpp>
#include <raytrain/backend/lightgbm/lightgbm_params.hpp>
#include <raytrain/backend/lightgbm/lightgbm_training.hpp>
#include <raytrain/config/scaling_config.hpp>
#include <raytrain/train/worker_setup.hpp>

namespace raytrain {

/// LightGBM, with its workers made known to each other: `Trainer<LightGBMBackend> trainer{LightGBMParams{...}, {...}}`
/// boosts by itself; with a training function of one's own, that function gets a `LightGBMContext`.
class LightGBMBackend {
 public:
  struct Config {
    LightGBMMode mode = LightGBMMode::automatic;
  };
  using Context = LightGBMContext;
  using Params = LightGBMParams;

  static constexpr std::string_view name = "lightgbm";
  static constexpr Launch default_launch = Launch::threads;

  explicit LightGBMBackend(Config const&) {}

  /// Errors: with `ScalingConfig::use_gpu` as `detail::check_booster_gpus`.
  void on_start(ScalingConfig const& scaling) {
    detail::refuse_virtual_shards(scaling, name);
    scaling_ = scaling;
    if (scaling.use_gpu) detail::check_booster_gpus(scaling, {"LightGBM"});
  }
  auto make_context(WorkerSetup setup) -> Context {
    auto const gpu = detail::own_booster_gpu(scaling_, setup);
    return Context{std::move(setup), gpu};
  }
  void on_shutdown() noexcept {}

  /// The ready-made training.
  static void train(LightGBMContext& ctx, LightGBMParams const& params) { lightgbm_train(ctx, params); }

  /// On threads one booster with the rows and the cores of all, unless the settings say otherwise.
  static auto trains_in_one_worker(Config const& config) -> bool { return config.mode != BoostingMode::distributed; }

 private:
  ScalingConfig scaling_;
};

static_assert(ReadyMadeBackend<LightGBMBackend>);

}  // namespace raytrain
