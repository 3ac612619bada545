// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <span>

#include <raytrain/config/checkpoint_config.hpp>
#include <raytrain/train/train_context.hpp>

namespace raytrain {

/// The best value of a metric so far, and how many values have come since: what early stopping and schedules of
/// learning rates wait by.
class BestMetric {
 public:
  /// A value is better by more than `min_delta` only; of the same unit as the metric.
  explicit BestMetric(ScoreOrder mode, double min_delta = 0) : mode_{mode}, min_delta_{min_delta} {}

  /// Takes the next value; true when it is better than all before. The first number is; a NaN never is.
  auto note(double metric) -> bool;

  /// The same for `TrainContext::average` of all ranks' values, so that each gets the same answer. A group operation.
  auto note(TrainContext& ctx, double metric) -> bool;

  /// NaN before the first number.
  [[nodiscard]] auto best() const noexcept -> double { return state_[0]; }
  /// Values since the best one, or since `begin_wait`.
  [[nodiscard]] auto waited() const noexcept -> std::int64_t { return static_cast<std::int64_t>(state_[1]); }

  /// Counts anew, from 0.
  void begin_wait() noexcept { state_[1] = 0; }

  /// All that a checkpoint needs to hold: `best()` and `waited()`.
  [[nodiscard]] auto state() noexcept -> std::span<double> { return state_; }
  [[nodiscard]] auto state() const noexcept -> std::span<double const> { return state_; }

 private:
  ScoreOrder mode_;
  double min_delta_;
  std::array<double, 2> state_{std::numeric_limits<double>::quiet_NaN(), 0};
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/train/best_metric-inl.hpp>
#endif
