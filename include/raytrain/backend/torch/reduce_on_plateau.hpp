// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <string>
#include <vector>

#include <raytrain/backend/torch/lr_schedule.hpp>
#include <raytrain/config/checkpoint_config.hpp>
#include <raytrain/train/best_metric.hpp>
#include <raytrain/train/train_context.hpp>

namespace raytrain {

struct ReduceOnPlateauConfig {
  double factor = 0.1;                ///< Of the rates, at each reduction; above 0 and below 1.
  int patience = 10;                  ///< Values in a row that may be no better; the one after them reduces. From 0.
  ScoreOrder mode = ScoreOrder::min;  ///< Which values are better: `min` for a loss, `max` for an accuracy.
  double min_delta = 0;               ///< By how much at least, in units of the metric; not negative.
  int cooldown = 0;                   ///< Values after a reduction that are not counted; from 0.
  double least_factor = 0;            ///< Of the base rates: below it none is reduced; from 0 to 1.

  /// Errors: `invalid_config`, naming the field, its value and what to write instead.
  void validate() const;
  [[nodiscard]] auto settings() const -> std::string;
};

/// Reduces the learning rates when a metric does not become better any more, on all ranks at once.
///
/// A NaN is no better than anything.
/// Source: PyTorch's ReduceLROnPlateau, with threshold_mode 'abs'.
class ReduceOnPlateau final : public LrSchedule {
 public:
  /// Errors: as `ReduceOnPlateauConfig::validate`; `invalid_config` for an optimizer without parameters or learning
  ///         rate, or whose rates are all 0.
  explicit ReduceOnPlateau(torch::optim::Optimizer& optimizer, ReduceOnPlateauConfig config = {});

  /// Takes the metric's next value, of which all ranks use the mean, as `BestMetric::note`. A group operation.
  ///
  /// Errors: as `Collective`.
  void step(TrainContext& ctx, double metric);

 private:
  [[nodiscard]] auto factor() const -> double override;
  [[nodiscard]] auto progress() const -> std::vector<double> override;
  [[nodiscard]] auto set_progress(std::vector<double> const& numbers) -> bool override;

  ReduceOnPlateauConfig config_;
  BestMetric metric_;
  std::int64_t reductions_ = 0;
  std::int64_t cooldown_left_ = 0;
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/reduce_on_plateau-inl.hpp>
#endif
