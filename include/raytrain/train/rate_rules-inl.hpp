// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/train/rate_rules.hpp>

namespace raytrain::detail {

/// What a rule says of its fields, for errors.
class RuleChecks {
 public:
  explicit RuleChecks(std::string_view rule) : rule_{rule} {}

  void count(std::string_view field, std::int64_t value, std::int64_t least = 1) const {
    if (value < least) refuse(field, fmt::format("must be at least {} (got {})", least, value));
  }
  void positive(std::string_view field, double value) const {
    if (!(value > 0) || std::isinf(value)) refuse(field, fmt::format("must be finite and above 0 (got {})", value));
  }
  void from_to(std::string_view field, double value, double least, double most) const {
    if (!(value >= least && value <= most)) {
      refuse(field, fmt::format("must be from {} to {} (got {})", least, most, value));
    }
  }
  void at_least(std::string_view field, double value, double least) const {
    if (!(value >= least) || std::isinf(value)) {
      refuse(field, fmt::format("must be finite and at least {} (got {})", least, value));
    }
  }
  void warmup(std::int64_t warmup_steps, std::int64_t steps) const {
    count("steps", steps);
    count("warmup_steps", warmup_steps, 0);
    if (warmup_steps >= steps) {
      refuse("warmup_steps", fmt::format("must be fewer than all {} steps (got {})", steps, warmup_steps),
             "steps counts those of the warm-up, too: write {.warmup_steps = 200, .steps = 10'000}");
    }
  }

  [[noreturn]] void refuse(std::string_view field, std::string happened,
                           std::string remedy = "set it to a number in that range") const {
    throw Error{Errc::invalid_config, fmt::format("{}::{}", rule_, field), std::move(happened), std::move(remedy)};
  }

 private:
  std::string_view rule_;
};

/// Of a step before the end of the warm-up.
RAYTRAIN_INLINE auto warmup_factor(std::int64_t step, std::int64_t warmup_steps) -> double {
  return static_cast<double>(step) / static_cast<double>(warmup_steps);
}

/// From `first` to `last` by half a cosine; `progress` is from 0 to 1.
RAYTRAIN_INLINE auto half_cosine(double first, double last, double progress) -> double {
  return last + (first - last) * (1 + std::cos(std::numbers::pi * progress)) / 2;
}

}  // namespace raytrain::detail

namespace raytrain {

RAYTRAIN_INLINE void StepRule::validate() const {
  detail::RuleChecks const check{name};
  check.count("step_size", step_size);
  check.positive("gamma", gamma);
  check.count("warmup_steps", warmup_steps, 0);
}

RAYTRAIN_INLINE auto StepRule::settings() const -> std::string {
  return fmt::format("step_size {}, gamma {}, warmup_steps {}", step_size, gamma, warmup_steps);
}

RAYTRAIN_INLINE auto StepRule::factor(std::int64_t step) const -> double {
  if (step < warmup_steps) return detail::warmup_factor(step, warmup_steps);
  return std::pow(gamma, static_cast<double>((step - warmup_steps) / step_size));
}

RAYTRAIN_INLINE void MultiStepRule::validate() const {
  detail::RuleChecks const check{name};
  check.count("warmup_steps", warmup_steps, 0);
  auto const is_rising = std::ranges::adjacent_find(milestones, std::ranges::greater_equal{}) == milestones.end();
  if (milestones.empty() || !is_rising || milestones.front() <= warmup_steps) {
    check.refuse("milestones",
                 fmt::format("must be at least one step, each above the one before, the first above warmup_steps, {} "
                             "(got {{{}}})",
                             warmup_steps, fmt::join(milestones, ", ")),
                 "write {.milestones = {3'000, 6'000}}");
  }
  check.positive("gamma", gamma);
}

RAYTRAIN_INLINE auto MultiStepRule::settings() const -> std::string {
  return fmt::format("milestones {{{}}}, gamma {}, warmup_steps {}", fmt::join(milestones, ", "), gamma, warmup_steps);
}

RAYTRAIN_INLINE auto MultiStepRule::factor(std::int64_t step) const -> double {
  if (step < warmup_steps) return detail::warmup_factor(step, warmup_steps);
  auto const reached = std::ranges::upper_bound(milestones, step) - milestones.begin();
  return std::pow(gamma, static_cast<double>(reached));
}

RAYTRAIN_INLINE void ExponentialRule::validate() const {
  detail::RuleChecks const check{name};
  check.positive("gamma", gamma);
  check.count("warmup_steps", warmup_steps, 0);
}

RAYTRAIN_INLINE auto ExponentialRule::settings() const -> std::string {
  return fmt::format("gamma {}, warmup_steps {}", gamma, warmup_steps);
}

RAYTRAIN_INLINE auto ExponentialRule::factor(std::int64_t step) const -> double {
  if (step < warmup_steps) return detail::warmup_factor(step, warmup_steps);
  return std::pow(gamma, static_cast<double>(step - warmup_steps));
}

RAYTRAIN_INLINE void CosineRule::validate() const {
  detail::RuleChecks const check{name};
  check.warmup(warmup_steps, steps);
  check.from_to("final_factor", final_factor, 0, 1);
}

RAYTRAIN_INLINE auto CosineRule::settings() const -> std::string {
  return fmt::format("warmup_steps {}, steps {}, final_factor {}", warmup_steps, steps, final_factor);
}

RAYTRAIN_INLINE auto CosineRule::factor(std::int64_t step) const -> double {
  if (step < warmup_steps) return detail::warmup_factor(step, warmup_steps);
  if (step >= steps) return final_factor;
  return detail::half_cosine(1, final_factor,
                             static_cast<double>(step - warmup_steps) / static_cast<double>(steps - warmup_steps));
}

RAYTRAIN_INLINE void RestartsRule::validate() const {
  detail::RuleChecks const check{name};
  check.count("period", period);
  check.count("period_factor", period_factor);
  check.from_to("final_factor", final_factor, 0, 1);
  check.count("warmup_steps", warmup_steps, 0);
}

RAYTRAIN_INLINE auto RestartsRule::settings() const -> std::string {
  return fmt::format("period {}, period_factor {}, final_factor {}, warmup_steps {}", period, period_factor,
                     final_factor, warmup_steps);
}

RAYTRAIN_INLINE auto RestartsRule::factor(std::int64_t step) const -> double {
  if (step < warmup_steps) return detail::warmup_factor(step, warmup_steps);
  auto within = static_cast<double>(step - warmup_steps);
  auto length = static_cast<double>(period);
  if (period_factor == 1) {
    within = std::fmod(within, length);
  } else {
    for (; within >= length; length *= static_cast<double>(period_factor)) within -= length;
  }
  return detail::half_cosine(1, final_factor, within / length);
}

RAYTRAIN_INLINE void LinearRule::validate() const {
  detail::RuleChecks const check{name};
  check.warmup(warmup_steps, steps);
  check.at_least("first_factor", first_factor, 0);
  check.at_least("last_factor", last_factor, 0);
}

RAYTRAIN_INLINE auto LinearRule::settings() const -> std::string {
  return fmt::format("warmup_steps {}, steps {}, first_factor {}, last_factor {}", warmup_steps, steps, first_factor,
                     last_factor);
}

RAYTRAIN_INLINE auto LinearRule::factor(std::int64_t step) const -> double {
  if (step < warmup_steps) return first_factor * detail::warmup_factor(step, warmup_steps);
  if (step >= steps) return last_factor;
  auto const progress = static_cast<double>(step - warmup_steps) / static_cast<double>(steps - warmup_steps);
  return first_factor + (last_factor - first_factor) * progress;
}

RAYTRAIN_INLINE void OneCycleRule::validate() const {
  detail::RuleChecks const check{name};
  check.count("steps", steps);
  if (!(rising_share > 0 && rising_share < 1)) {
    check.refuse("rising_share", fmt::format("must be above 0 and below 1 (got {})", rising_share));
  }
  if (rising_share * static_cast<double>(steps) <= 1) {
    check.refuse("steps", fmt::format("must have more than one in its rising_share, {} (got {})", rising_share, steps));
  }
  check.at_least("div_factor", div_factor, 1);
  check.at_least("final_div_factor", final_div_factor, 1);
}

RAYTRAIN_INLINE auto OneCycleRule::settings() const -> std::string {
  return fmt::format("steps {}, rising_share {}, div_factor {}, final_div_factor {}", steps, rising_share, div_factor,
                     final_div_factor);
}

RAYTRAIN_INLINE auto OneCycleRule::factor(std::int64_t step) const -> double {
  auto const at = static_cast<double>(step);
  auto const highest_at = rising_share * static_cast<double>(steps) - 1;
  auto const last_at = static_cast<double>(steps - 1);
  auto const first = 1 / div_factor;
  auto const last = first / final_div_factor;
  if (at <= highest_at) return detail::half_cosine(first, 1, at / highest_at);
  if (at >= last_at) return last;
  return detail::half_cosine(1, last, (at - highest_at) / (last_at - highest_at));
}

}  // namespace raytrain
