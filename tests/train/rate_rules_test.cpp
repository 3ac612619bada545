// SPDX-License-Identifier: Apache-2.0
#include <raytrain/train/rate_rules.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numbers>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "../support/thrown_error.hpp"

namespace {

using namespace raytrain;
using raytrain::testing::check_contains;
using raytrain::testing::thrown_error;

auto factors(RateRule auto const& rule, std::int64_t steps) -> std::vector<double> {
  rule.validate();
  std::vector<double> all;
  for (std::int64_t step = 0; step < steps; ++step) all.push_back(rule.factor(step));
  return all;
}

void check_near(std::vector<double> const& found, std::vector<double> const& expected) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    CHECK(std::abs(found[i] - expected[i]) <= 1e-14);
  }
}

auto refusal_of(RateRule auto const& rule) -> std::string {
  return thrown_error([&] { rule.validate(); });
}

auto const at_quarter = (1 + std::sqrt(0.5)) / 2;  // of a half cosine from 1 to 0

}  // namespace

TEST_CASE("a step decay multiplies by gamma every step_size steps, counted from the end of the warm-up") {
  CHECK(factors(StepRule{.step_size = 2, .gamma = 0.5}, 7) == std::vector<double>{1, 1, 0.5, 0.5, 0.25, 0.25, 0.125});
  CHECK(factors(StepRule{.step_size = 2, .gamma = 0.5, .warmup_steps = 4}, 8) ==
        std::vector<double>{0, 0.25, 0.5, 0.75, 1, 1, 0.5, 0.5});
}

TEST_CASE("a multi-step decay multiplies by gamma at each milestone, counted from the very beginning") {
  CHECK(factors(MultiStepRule{.milestones = {2, 5}, .gamma = 0.5}, 7) ==
        std::vector<double>{1, 1, 0.5, 0.5, 0.5, 0.25, 0.25});
  CHECK(factors(MultiStepRule{.milestones = {3}, .gamma = 0.25, .warmup_steps = 2}, 5) ==
        std::vector<double>{0, 0.5, 1, 0.25, 0.25});
}

TEST_CASE("an exponential decay multiplies by gamma at each step") {
  CHECK(factors(ExponentialRule{.gamma = 0.5}, 4) == std::vector<double>{1, 0.5, 0.25, 0.125});
  CHECK(factors(ExponentialRule{.gamma = 2, .warmup_steps = 2}, 5) == std::vector<double>{0, 0.5, 1.0, 2.0, 4.0});
}

TEST_CASE("a cosine falls as PyTorch's table of cosines, and not again once it is down") {
  check_near(factors(CosineRule{.steps = 4}, 7), {1, at_quarter, 0.5, 1 - at_quarter, 0, 0, 0});
  check_near(factors(CosineRule{.warmup_steps = 2, .steps = 6, .final_factor = 0.5}, 8),
             {0, 0.5, 1, 0.5 + at_quarter / 2, 0.75, 1 - at_quarter / 2, 0.5, 0.5});
}

TEST_CASE("a cosine has the rates of PyTorch's recursive formula") {
  constexpr std::int64_t steps = 1000;
  constexpr auto least = 0.01;
  auto const found = factors(CosineRule{.steps = steps, .final_factor = least}, steps);
  auto rate = 1.0;
  for (std::size_t step = 1; step < found.size(); ++step) {
    auto const cosine = [](std::size_t t) { return 1 + std::cos(std::numbers::pi * static_cast<double>(t) / steps); };
    rate = least + (rate - least) * cosine(step) / cosine(step - 1);
    CHECK(std::abs(found[step] - rate) < 1e-11);
  }
}

TEST_CASE("a restart brings the first rate back, after periods that become longer") {
  check_near(factors(RestartsRule{.period = 2}, 5), {1, 0.5, 1, 0.5, 1});
  check_near(factors(RestartsRule{.period = 2, .period_factor = 2, .warmup_steps = 1}, 8),
             {0, 1, 0.5, 1, at_quarter, 0.5, 1 - at_quarter, 1});
  RestartsRule const rule{.period = 10, .period_factor = 3, .final_factor = 0.25};
  for (auto const begin : {0, 10, 40, 130, 400, 1210}) CHECK(rule.factor(begin) == 1);
  CHECK(rule.factor(399) < 0.2501);
}

TEST_CASE("a step beyond all that a training has finds a finite rate") {
  constexpr auto last = std::numeric_limits<std::int64_t>::max();
  auto const check = [](double factor) {
    CHECK(factor >= 0);
    CHECK(factor <= 1);
  };
  check(StepRule{.step_size = 1}.factor(last));
  check(RestartsRule{.period = 3}.factor(last));
  check(RestartsRule{.period = 3, .period_factor = last}.factor(last));
  check(RestartsRule{.period = 1, .period_factor = 2}.factor(last));
  check(OneCycleRule{.steps = last}.factor(last));
  CHECK(LinearRule{.steps = last, .first_factor = 1, .last_factor = 0.5}.factor(last) == 0.5);
}

TEST_CASE("a line has the rates of the example in PyTorch's documentation of LinearLR") {
  std::vector<double> rates;
  for (auto const factor : factors(LinearRule{.steps = 4, .first_factor = 0.5, .last_factor = 1}, 6)) {
    rates.push_back(0.05 * factor);
  }
  check_near(rates, {0.025, 0.03125, 0.0375, 0.04375, 0.05, 0.05});
  CHECK(factors(LinearRule{.warmup_steps = 2, .steps = 6}, 8) == std::vector<double>{0, 0.5, 1, 0.75, 0.5, 0.25, 0, 0});
}

TEST_CASE("one cycle begins at a 25th of the highest rate, reaches it after 30 % and ends at a 250,000th") {
  auto const found = factors(OneCycleRule{.steps = 10}, 12);
  auto const sine = [](double part) { return std::pow(std::sin(std::numbers::pi / 2 * part), 2); };
  auto const down = [&](double step) { return 1 - (1 - 4e-6) * sine((step - 2) / 7); };
  check_near(found, {0.04, 0.52, 1, down(3), down(4), down(5), down(6), down(7), down(8), 4e-6, 4e-6, 4e-6});
}

TEST_CASE("a rule that cannot work is refused by its field, with the value") {
  constexpr auto nan = std::numeric_limits<double>::quiet_NaN();
  constexpr auto infinity = std::numeric_limits<double>::infinity();
  CHECK(refusal_of(CosineRule{}) ==
        "invalid_config: CosineWithWarmup::steps: must be at least 1 (got 0); set it to a number in that range");
  CHECK(
      refusal_of(CosineRule{.warmup_steps = 300, .steps = 200}) ==
      "invalid_config: CosineWithWarmup::warmup_steps: must be fewer than all 200 steps (got 300); steps counts those "
      "of the warm-up, too: write {.warmup_steps = 200, .steps = 10'000}");
  check_contains(refusal_of(CosineRule{.steps = -3}), "steps: must be at least 1 (got -3)");
  check_contains(refusal_of(CosineRule{.warmup_steps = -1, .steps = 5}), "warmup_steps: must be at least 0 (got -1)");
  check_contains(refusal_of(CosineRule{.steps = 5, .final_factor = nan}),
                 "final_factor: must be from 0 to 1 (got nan)");
  check_contains(refusal_of(LinearRule{.warmup_steps = 5, .steps = 5}), "must be fewer than all 5 steps (got 5)");
  check_contains(refusal_of(LinearRule{.steps = 5, .last_factor = infinity}),
                 "last_factor: must be finite and at least 0");
  check_contains(refusal_of(StepRule{}), "StepDecay::step_size: must be at least 1 (got 0)");
  check_contains(refusal_of(StepRule{.step_size = 1, .gamma = nan}), "gamma: must be finite and above 0 (got nan)");
  check_contains(refusal_of(ExponentialRule{.gamma = infinity}), "gamma: must be finite and above 0 (got inf)");
  check_contains(refusal_of(ExponentialRule{}), "ExponentialDecay::gamma: must be finite and above 0 (got 0)");
  check_contains(refusal_of(MultiStepRule{}), "(got {})");
  check_contains(refusal_of(MultiStepRule{.milestones = {5, 5}}), "each above the one before");
  check_contains(refusal_of(MultiStepRule{.milestones = {5}, .warmup_steps = 5}),
                 "the first above warmup_steps, 5 (got {5})");
  check_contains(refusal_of(RestartsRule{.period = 4, .period_factor = 0}),
                 "period_factor: must be at least 1 (got 0)");
  check_contains(refusal_of(OneCycleRule{.steps = 3}),
                 "steps: must have more than one in its rising_share, 0.3 (got 3)");
  check_contains(refusal_of(OneCycleRule{.steps = 9, .rising_share = 1}), "rising_share: must be above 0 and below 1");
  check_contains(refusal_of(OneCycleRule{.steps = 9, .div_factor = 0.5}), "div_factor: must be finite and at least 1");
}
