// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/checkpoint/checkpoint_draft.hpp>
#include <raytrain/checkpoint/checkpointed.hpp>
#include <raytrain/config/checkpoint_config.hpp>
#include <raytrain/train/best_metric.hpp>
#include <raytrain/train/train_context.hpp>

namespace raytrain {

struct EarlyStoppingConfig {
  int patience = 3;                   ///< Values in a row that are no better, with which training ends; 0: never.
  ScoreOrder mode = ScoreOrder::min;  ///< Which values are better: `min` for a loss, `max` for an accuracy.
  double min_delta = 0;               ///< By how much at least, in units of the metric; not negative.

  /// Errors: `invalid_config`, naming the field, its value and what to write instead.
  void validate() const;
};

/// Ends a training whose metric does not become better any more, on all ranks at once:
///
///     for (int epoch = ctx.restore(model, optimizer, stopping); epoch < 100 && !stopping.is_over(); ++epoch) {
///       ...
///       stopping.step(ctx, loss);
///       ctx.report(Epoch{epoch, loss}, save(model, optimizer, stopping));
///     }
///
/// A NaN is no better than anything. A run that goes on from a checkpoint goes on waiting, with the settings of its own
/// start: with more patience, a training that was over goes on. In a checkpoint of arrays it is one of them:
/// `save({{"weights", weights}, {"early_stopping", stopping.state()}})`.
///
/// Source: EarlyStopping of Keras and of PyTorch Lightning, whose `patience` counts alike, but for 0, which there ends
///         the training with the first value that is no better; L. Prechelt, "Early Stopping - But When?", 1998.
class EarlyStopping {
 public:
  static constexpr auto file_name = "early_stopping.json";

  /// Errors: as `EarlyStoppingConfig::validate`.
  explicit EarlyStopping(EarlyStoppingConfig config = {});

  /// Takes the next value of the metric, of which all ranks use the mean, as `BestMetric::note`. A group operation.
  ///
  /// Errors: as `Collective`.
  void step(TrainContext& ctx, double metric) { metric_.note(ctx, metric); }

  /// The same on every rank.
  [[nodiscard]] auto is_over() const noexcept -> bool {
    return config_.patience > 0 && metric_.waited() >= config_.patience;
  }

  /// NaN before the first number.
  [[nodiscard]] auto best() const noexcept -> double { return metric_.best(); }
  /// Values since the best one.
  [[nodiscard]] auto waited() const noexcept -> std::int64_t { return metric_.waited(); }

  /// What changes, for a checkpoint of arrays.
  [[nodiscard]] auto state() noexcept -> std::span<double> { return metric_.state(); }

  /// Writes early_stopping.json, or a file of another name.
  void add_to(CheckpointDraft& draft, std::string const& file = file_name) const;

  /// Goes on from what `add_to` has written, which holds no settings: there is never news of them.
  ///
  /// Errors: those of `Checkpoint::read`; `invalid_data` for a file of something else.
  auto load_from(Checkpoint const& checkpoint, std::string const& file = file_name) -> std::string;

 private:
  EarlyStoppingConfig config_;
  BestMetric metric_;
};

static_assert(Checkpointed<EarlyStopping>);

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/train/early_stopping-inl.hpp>
#endif
