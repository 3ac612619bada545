// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// How a learning rate changes over the steps of a training: functions of the step alone, of no framework. Each gives
/// the factor of a base rate. `warmup_steps` steps, where there is such a field, raise it in a line from 0 to
/// the rule's first value (the gradual warm-up of P. Goyal et al., "Accurate, Large Minibatch SGD", 2017, which Hugging
/// Face's schedules begin at 0); 0: none.
namespace raytrain {

/// A rule of this file, or of the program's.
///
/// What the compiler cannot check, every model promises: `factor` is a pure function of the rule's fields and the step.
template <class R>
concept RateRule = std::copyable<R> && requires(R const& rule, std::int64_t step) {
  /// Of the schedule, as messages and checkpoints have it.
  { R::name } -> std::convertible_to<std::string_view>;

  /// Throws `Error{Errc::invalid_config}` for fields that cannot work.
  { rule.validate() } -> std::same_as<void>;

  /// All fields, as people are told, and as two of them are compared: "step_size 30, gamma 0.1".
  { rule.settings() } -> std::same_as<std::string>;

  /// For the step with that number, from 0, however large: at least 0. A schedule throws where the rate that it gives
  /// is not finite, as with a gamma above 1 in the end.
  { rule.factor(step) } -> std::same_as<double>;
};

/// gamma^floor(t / step_size), t steps after the warm-up.
///
/// Source: PyTorch's StepLR.
struct StepRule {
  static constexpr std::string_view name = "StepDecay";

  std::int64_t step_size = 0;  ///< Steps between two decays; at least 1, must be set.
  double gamma = 0.1;          ///< Finite, above 0.
  std::int64_t warmup_steps = 0;

  void validate() const;
  [[nodiscard]] auto settings() const -> std::string;
  [[nodiscard]] auto factor(std::int64_t step) const -> double;
};

/// gamma^(milestones that are reached).
///
/// Source: PyTorch's MultiStepLR.
struct MultiStepRule {
  static constexpr std::string_view name = "MultiStepDecay";

  std::vector<std::int64_t> milestones{};  ///< Steps from the beginning, rising, behind the warm-up; at least one.
  double gamma = 0.1;                      ///< Finite, above 0.
  std::int64_t warmup_steps = 0;

  void validate() const;
  [[nodiscard]] auto settings() const -> std::string;
  [[nodiscard]] auto factor(std::int64_t step) const -> double;
};

/// gamma^t, t steps after the warm-up.
///
/// Source: PyTorch's ExponentialLR.
struct ExponentialRule {
  static constexpr std::string_view name = "ExponentialDecay";

  double gamma = 0;  ///< Finite, above 0, must be set.
  std::int64_t warmup_steps = 0;

  void validate() const;
  [[nodiscard]] auto settings() const -> std::string;
  [[nodiscard]] auto factor(std::int64_t step) const -> double;
};

/// From 1 down to `final_factor` by half a cosine, and then no further.
///
/// Source: equation 5 of I. Loshchilov and F. Hutter, "SGDR: Stochastic Gradient Descent with Warm Restarts", 2017;
///         PyTorch's CosineAnnealingLR, whose eta_min is `final_factor` of the base rate.
struct CosineRule {
  static constexpr std::string_view name = "CosineWithWarmup";

  std::int64_t warmup_steps = 0;
  std::int64_t steps = 0;   ///< All, with those of the warm-up; at least 1, must be set.
  double final_factor = 0;  ///< From 0 to 1.

  void validate() const;
  [[nodiscard]] auto settings() const -> std::string;
  [[nodiscard]] auto factor(std::int64_t step) const -> double;
};

/// The same again and again, from 1 each time, in periods that become longer.
///
/// Source: as `CosineRule`, section 3; PyTorch's CosineAnnealingWarmRestarts, with T_0 and T_mult.
struct RestartsRule {
  static constexpr std::string_view name = "CosineWithRestarts";

  std::int64_t period = 0;         ///< Steps of the first one, after the warm-up; at least 1, must be set.
  std::int64_t period_factor = 1;  ///< How many times as long as the one before each period is; at least 1.
  double final_factor = 0;         ///< From 0 to 1: what each period comes near to, and does not reach.
  std::int64_t warmup_steps = 0;

  void validate() const;
  [[nodiscard]] auto settings() const -> std::string;
  [[nodiscard]] auto factor(std::int64_t step) const -> double;
};

/// In a line from `first_factor` to `last_factor`, and then no further.
///
/// Source: PyTorch's LinearLR, whose total_iters are the steps after the warm-up.
struct LinearRule {
  static constexpr std::string_view name = "LinearWithWarmup";

  std::int64_t warmup_steps = 0;
  std::int64_t steps = 0;   ///< All, with those of the warm-up; at least 1, must be set.
  double first_factor = 1;  ///< Finite, not negative.
  double last_factor = 0;   ///< Finite, not negative.

  void validate() const;
  [[nodiscard]] auto settings() const -> std::string;
  [[nodiscard]] auto factor(std::int64_t step) const -> double;
};

/// Up to the base rate, which is the highest one, and down to almost nothing, both by half a cosine. Momentum stays.
///
/// Source: L. Smith and N. Topin, "Super-Convergence", 2018; PyTorch's OneCycleLR, with its default of two phases.
struct OneCycleRule {
  static constexpr std::string_view name = "OneCycle";

  std::int64_t steps = 0;         ///< All; must be set. The last one has the lowest rate, as all behind it have.
  double rising_share = 0.3;      ///< Of the steps, that rise: above 0 and below 1, and more than one step.
  double div_factor = 25;         ///< The first rate is the highest one by this; at least 1, finite.
  double final_div_factor = 1e4;  ///< The lowest rate is the first one by this; at least 1, finite.

  void validate() const;
  [[nodiscard]] auto settings() const -> std::string;
  [[nodiscard]] auto factor(std::int64_t step) const -> double;
};

static_assert(RateRule<StepRule> && RateRule<MultiStepRule> && RateRule<ExponentialRule> && RateRule<CosineRule> &&
              RateRule<RestartsRule> && RateRule<LinearRule> && RateRule<OneCycleRule>);

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/train/rate_rules-inl.hpp>
#endif
