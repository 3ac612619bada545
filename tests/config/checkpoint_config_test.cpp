// SPDX-License-Identifier: Apache-2.0
#include <raytrain/config/checkpoint_config.hpp>

#include <doctest/doctest.h>

#include "../support/thrown_error.hpp"

// A config that names some of its fields compiles without a warning about the others.
#pragma GCC diagnostic error "-Wmissing-field-initializers"

using raytrain::CheckpointConfig;
using raytrain::testing::thrown_error;

TEST_CASE("unless told otherwise every checkpoint is kept, the newest ranks highest, and a report does not wait") {
  CheckpointConfig const config;
  config.validate();
  CHECK_FALSE(config.num_to_keep.has_value());
  CHECK(config.score_attribute.empty());
  CHECK(config.score_order == raytrain::ScoreOrder::max);
  CHECK(config.mode == raytrain::CheckpointMode::async);
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
