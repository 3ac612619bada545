// SPDX-License-Identifier: Apache-2.0
#include <raytrain/config/checkpoint_config.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <string>

#include <doctest/doctest.h>

#include "../support/thrown_error.hpp"

// A config that names some of its fields compiles without a warning about the others.
#pragma GCC diagnostic error "-Wmissing-field-initializers"

using namespace std::chrono_literals;

using raytrain::cheapest_interval;
using raytrain::CheckpointConfig;
using raytrain::CheckpointInterval;
using raytrain::CheckpointMode;
using raytrain::WhenBusy;
using raytrain::testing::thrown_error;

TEST_CASE("unless told otherwise every checkpoint is kept, the newest ranks highest, and a report does not wait") {
  CheckpointConfig const config;
  config.validate();
  CHECK_FALSE(config.num_to_keep.has_value());
  CHECK(config.score_attribute.empty());
  CHECK(config.score_order == raytrain::ScoreOrder::max);
  CHECK(config.mode == raytrain::CheckpointMode::async);
  CHECK_FALSE(config.every.has_value());
  CHECK(config.when_busy == WhenBusy::wait);
  CHECK(config.on_failed_write == raytrain::OnFailedWrite::fail);
  CHECK(config.write_retries == 0);
  CHECK(config.memory_copies == 0);
}

TEST_CASE("keeping one checkpoint is accepted") {
  CheckpointConfig const config{.num_to_keep = 1, .score_attribute = "loss", .score_order = raytrain::ScoreOrder::min};
  config.validate();
  CHECK(config.mode == raytrain::CheckpointMode::async);
}

TEST_CASE("keeping no checkpoint is refused, and the message says how to keep all") {
  CHECK(thrown_error([] { CheckpointConfig{.num_to_keep = 0}.validate(); }) ==
        "invalid_config: CheckpointConfig::num_to_keep: must be at least 1 (got 0); leave it unset to keep every "
        "checkpoint");
  CHECK(thrown_error([] { CheckpointConfig{.num_to_keep = -3}.validate(); }).find("(got -3)") != std::string::npos);
}

TEST_CASE("what is said of a score is refused without a metric that is the score") {
  CHECK(
      thrown_error([] { CheckpointConfig{.fail_on_non_finite_score = true}.validate(); }) ==
      "invalid_config: CheckpointConfig::fail_on_non_finite_score: is set, and score_attribute names no metric; name a "
      "metric, as .score_attribute = \"loss\", or leave fail_on_non_finite_score out");
  CHECK(
      thrown_error([] { CheckpointConfig{.score_order = raytrain::ScoreOrder::min}.validate(); }) ==
      "invalid_config: CheckpointConfig::score_order: is ScoreOrder::min, and score_attribute names no metric; name a "
      "metric, as .score_attribute = \"loss\", or leave score_order out");
  CheckpointConfig{.score_attribute = "loss", .fail_on_non_finite_score = true}.validate();
}

TEST_CASE("an interval is a number of reports, a time in any unit or automatic, and other processes compare its text") {
  auto const text_of = [](CheckpointConfig const& config) {
    config.validate();
    return config.every->text();
  };
  CHECK(text_of({.every = CheckpointInterval::reports(10)}) == "CheckpointInterval::reports(10)");
  CHECK(text_of({.every = 30s}) == "30 s");
  CHECK(text_of({.every = 1500us}) == "0.0015 s");
  CHECK(text_of({.every = std::chrono::hours::max()}).ends_with(" s"));
  CHECK(text_of({.every = CheckpointInterval::automatic()}) == "CheckpointInterval::automatic(86400 s)");
  CHECK(text_of({.every = CheckpointInterval::automatic(10min)}) == "CheckpointInterval::automatic(600 s)");
}

TEST_CASE("an interval that is not above 0 is refused, and the message names it") {
  auto const refusal = [](CheckpointInterval every) {
    return thrown_error([&] { CheckpointConfig{.every = every}.validate(); });
  };
  CHECK(refusal(CheckpointInterval::reports(0)) ==
        "invalid_config: CheckpointConfig::every: a number of reports must be at least 1 (got "
        "CheckpointInterval::reports(0)); leave it unset to write every checkpoint that is reported");
  CHECK(refusal(CheckpointInterval::reports(-1)).find("reports(-1)") != std::string::npos);
  CHECK(refusal(-30s).find("a time must be above 0 (got -30 s)") != std::string::npos);
  CHECK(refusal(0s).find("a time must be above 0 (got 0 s)") != std::string::npos);
  CHECK(refusal(CheckpointInterval::automatic(0s)).find("between failures must be above 0") != std::string::npos);
  CHECK(refusal(CheckpointInterval::automatic(-1h)).find("automatic(-3600 s)") != std::string::npos);
  CHECK(refusal(std::chrono::duration<double>{std::nan("")}).find("above 0") != std::string::npos);
}

TEST_CASE("skipping or replacing is refused where a report waits for the commit, and so are negative retries") {
  for (auto const when_busy : {WhenBusy::skip, WhenBusy::replace}) {
    CHECK(thrown_error([&] { CheckpointConfig{.mode = CheckpointMode::sync, .when_busy = when_busy}.validate(); }) ==
          "invalid_config: CheckpointConfig::when_busy: must be WhenBusy::wait with CheckpointMode::sync, where no "
          "checkpoint is reported before the last one is committed; leave one of the two as it is");
    CheckpointConfig{.when_busy = when_busy}.validate();
  }
  CheckpointConfig{.mode = CheckpointMode::sync, .every = 30s}.validate();
  CHECK(thrown_error([] { CheckpointConfig{.write_retries = -1}.validate(); }) ==
        "invalid_config: CheckpointConfig::write_retries: must not be negative (got -1); write 0 to try once");
}

TEST_CASE("fewer copies in memory than none are refused") {
  CHECK(thrown_error([] { CheckpointConfig{.memory_copies = -2}.validate(); }) ==
        "invalid_config: CheckpointConfig::memory_copies: must not be negative (got -2); write 0 to keep nothing in "
        "memory");
}

TEST_CASE("the cheapest interval wastes less time than any other, by Daly's model of failures and restarts") {
  // Daly (2006), equation 20: the time to train for a second, without what a restart costs beside.
  auto const time_of = [](double interval, double cost, double failures) {
    return failures * std::expm1((interval + cost) / failures) / interval;
  };
  for (double const cost : {0.01, 1.0, 60.0, 600.0}) {
    for (double const failures : {600.0, 3600.0, 86400.0}) {
      CAPTURE(cost);
      CAPTURE(failures);
      auto const seconds = [](double s) { return CheckpointInterval::Seconds{s}; };
      auto const best = cheapest_interval({.cost = seconds(cost), .between_failures = seconds(failures)}).count();
      auto least = std::numeric_limits<double>::infinity();
      for (double interval = best / 4; interval < 4 * best; interval *= 1.01)
        least = std::min(least, time_of(interval, cost, failures));
      CHECK(time_of(best, cost, failures) < 1.002 * least);
    }
  }
  CHECK(cheapest_interval({.cost = 20s, .between_failures = 1h}).count() ==
        doctest::Approx(std::sqrt(2 * 20 * 3600)).epsilon(0.05));  // Young (1974)
  CHECK(cheapest_interval({.cost = 0s, .between_failures = 1h}).count() == 0);
  CHECK(cheapest_interval({.cost = 3h, .between_failures = 1h}) == 1h);
}
