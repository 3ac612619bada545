// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <torch/torch.h>

#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/checkpoint/checkpoint_draft.hpp>
#include <raytrain/checkpoint/checkpointed.hpp>
#include <raytrain/config/checkpoint_config.hpp>
#include <raytrain/core/metrics.hpp>
#include <raytrain/train/best_metric.hpp>
#include <raytrain/train/rate_rules.hpp>
#include <raytrain/train/train_context.hpp>

namespace raytrain {

/// Sets the learning rates of an optimizer: those that its parameter groups had when the schedule was made, their base
/// rates, times a factor. The optimizer must live as long, with the groups that it has then. Make one schedule of an
/// optimizer: a second one would take the first one's rates for base rates, and each undo what the other sets.
///
/// `save(model, optimizer, schedule)` stores it, and `TorchContext::restore` goes on with it, to the same bits. From
/// then on reports gain the rate as the metric "lr", unless they have one: that of the next step; "lr_1", "lr_2" are
/// those of further groups. The settings are always those of this program, the base rates among them: where the
/// checkpoint's were others, `restore` warns.
class LrSchedule {
 public:
  static constexpr auto file_name = "schedule.json";

  LrSchedule(LrSchedule const&) = delete;
  auto operator=(LrSchedule const&) -> LrSchedule& = delete;
  virtual ~LrSchedule() = default;

  /// Whose rates it sets.
  [[nodiscard]] auto optimizer() const noexcept -> torch::optim::Optimizer const& { return optimizer_; }
  /// One for each parameter group: those of the optimizer's next step, unless somebody has set others there.
  [[nodiscard]] auto rates() const noexcept -> std::vector<double> const& { return *rates_; }
  /// The same, for who does not know whether the schedule still lives.
  [[nodiscard]] auto followed_rates() const noexcept -> std::weak_ptr<std::vector<double> const> { return rates_; }
  /// How often it was stepped, before a resume, too.
  [[nodiscard]] auto steps_done() const noexcept -> std::int64_t { return steps_done_; }

  /// Writes schedule.json, or a file of another name.
  void add_to(CheckpointDraft& draft, std::string const& file = file_name) const;

  /// Goes on from what `add_to` has written, and sets the rates. Returns which settings it had there, where they are
  /// others.
  ///
  /// Errors: those of `Checkpoint::read` and of `set_rates`; `backend` for a schedule of another kind, or of another
  ///         number of parameter groups; `invalid_data` for a file of something else.
  auto load_from(Checkpoint const& checkpoint, std::string const& file = file_name) -> std::string;

 protected:
  /// `settings` are those that a checkpoint compares. The schedule's own constructor ends by `set_rates`.
  ///
  /// Errors: `invalid_config` for an optimizer without parameters, whose options have no learning rate, or whose rates
  ///         are all 0.
  LrSchedule(torch::optim::Optimizer& optimizer, std::string_view kind, std::string settings);

  /// Errors: `invalid_config`, and no rate is set, where one would not be finite or below 0; `invalid_call` for an
  ///         optimizer that has other groups than before.
  void set_rates();
  /// Errors: as `set_rates`.
  void count_step() {
    ++steps_done_;
    set_rates();
  }

 private:
  /// Of the base rates, now.
  [[nodiscard]] virtual auto factor() const -> double = 0;

  /// What it knows beside how often it was stepped, as numbers.
  [[nodiscard]] virtual auto progress() const -> std::vector<double> { return {}; }
  /// Goes on from what `progress` gave; false, and nothing changes, for numbers that it cannot have given.
  [[nodiscard]] virtual auto set_progress(std::vector<double> const& numbers) -> bool { return numbers.empty(); }

  torch::optim::Optimizer& optimizer_;
  std::string kind_;
  std::string settings_;
  std::vector<double> base_rates_;
  std::int64_t steps_done_ = 0;
  std::shared_ptr<std::vector<double>> rates_ = std::make_shared<std::vector<double>>();
};

static_assert(Checkpointed<LrSchedule>);

/// A schedule by a rule of <raytrain/train/rate_rules.hpp>, or of the program's:
///
///     CosineWithWarmup schedule{optimizer, {.warmup_steps = 200, .steps = 10'000}};
///     ...
///     optimizer.step();
///     schedule.step();
///
/// A step is whatever the program counts: behind each `optimizer.step()`, as here, or behind each epoch. All ranks step
/// equally often.
template <RateRule Rule>
class RuleSchedule final : public LrSchedule {
 public:
  /// Sets the rates of the first step.
  ///
  /// Errors: `invalid_config` for a rule that cannot work, and for an optimizer without parameters or learning rate, or
  ///         whose rates are all 0.
  RuleSchedule(torch::optim::Optimizer& optimizer, Rule rule)
      : LrSchedule{optimizer, Rule::name, (rule.validate(), rule.settings())}, rule_{std::move(rule)} {
    set_rates();
  }

  /// Sets the rates of the next step.
  ///
  /// Errors: `invalid_config` where one would not be finite, as of a gamma above 1 in the end, or below 0.
  void step() { count_step(); }

 private:
  [[nodiscard]] auto factor() const -> double override { return rule_.factor(steps_done()); }

  Rule rule_;
};

// The formula and the settings of each are with its rule.
using StepDecay = RuleSchedule<StepRule>;
using MultiStepDecay = RuleSchedule<MultiStepRule>;
using ExponentialDecay = RuleSchedule<ExponentialRule>;
using CosineWithWarmup = RuleSchedule<CosineRule>;
using CosineWithRestarts = RuleSchedule<RestartsRule>;
using LinearWithWarmup = RuleSchedule<LinearRule>;
using OneCycle = RuleSchedule<OneCycleRule>;

namespace detail {

/// Adds the rates as "lr", "lr_1", "lr_2" to metrics, but for those whose names are there.
void add_rates(Metrics& metrics, std::vector<double> const& rates);

}  // namespace detail

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
#include <raytrain/backend/torch/lr_schedule-inl.hpp>
#endif
