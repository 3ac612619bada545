// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string_view>
#include <utility>

#include <raytrain/backend/backend.hpp>
#include <raytrain/backend/boosting/detail/round_board.hpp>
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

  explicit LightGBMBackend(Config const& config) : mode_{config.mode} {}

  void on_start(ScalingConfig const&) {}
  auto make_context(WorkerSetup setup) -> Context { return Context{std::move(setup), mode_, board_}; }
  void on_shutdown() noexcept {}

  /// The ready-made training.
  static void train(LightGBMContext& ctx, LightGBMParams const& params) { lightgbm_train(ctx, params); }

 private:
  LightGBMMode mode_;
  std::shared_ptr<detail::RoundBoard> board_ = std::make_shared<detail::RoundBoard>();
};

}  // namespace raytrain
