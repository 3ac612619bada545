// SPDX-License-Identifier: Apache-2.0
#include <raytrain/config/run_config.hpp>

#include <chrono>

#include <doctest/doctest.h>

#include "../support/thrown_error.hpp"

// A config that names some of its fields compiles without a warning about the others.
#pragma GCC diagnostic error "-Wmissing-field-initializers"

using raytrain::RunConfig;
using raytrain::testing::thrown_error;

TEST_CASE("unless told otherwise a run is named after its program, lies below runs, resumes and stops within 5 s") {
  RunConfig const config;
  config.validate();
  CHECK(config.name.empty());
  CHECK(config.storage_path == "runs");
  CHECK(config.resume == raytrain::Resume::automatic);
  CHECK(config.seed == 0);
  CHECK(config.stop_grace == std::chrono::seconds{5});
  CHECK(RunConfig{.stop_grace = {}}.return_grace() == std::chrono::seconds{5});
  CHECK(RunConfig{.stop_grace = std::chrono::minutes{1}}.return_grace() == std::chrono::minutes{1});
  CHECK(config.handle_signals);
}

TEST_CASE("a name, a path and no grace at all are accepted") {
  RunConfig const config{.name = "fashion..mnist", .storage_path = ".", .stop_grace = {}};
  config.validate();
  CHECK(config.seed == 0);
}

TEST_CASE("a name that is not one folder's is refused with the name in the message") {
  CHECK(thrown_error([] { RunConfig{.name = "a/b"}.validate(); }) ==
        "invalid_config: RunConfig::name: must be one folder's name (got 'a/b'); put folders into "
        "RunConfig::storage_path");
  for (auto const* const name : {".", "..", "/", "a/"}) {
    CAPTURE(name);
    CHECK(thrown_error([&] { RunConfig{.name = name}.validate(); }).find("(got '" + std::string{name} + "')") !=
          std::string::npos);
  }
}

TEST_CASE("an empty storage path is refused, and the message says what to write for this folder") {
  CHECK(thrown_error([] { RunConfig{.storage_path = ""}.validate(); }) ==
        "invalid_config: RunConfig::storage_path: must not be empty; write \".\" for this folder");
}

TEST_CASE("a negative grace is refused with its length in the message") {
  CHECK(
      thrown_error([] { RunConfig{.stop_grace = std::chrono::milliseconds{-1}}.validate(); }) ==
      "invalid_config: RunConfig::stop_grace: must not be negative (got -1 ms); write 0 to stop workers at their next "
      "collective");
}

TEST_CASE("a time limit for collectives that no worker can keep is refused with its length in the message") {
  CHECK(thrown_error([] { RunConfig{.collective_timeout = std::chrono::milliseconds{0}}.validate(); }) ==
        "invalid_config: RunConfig::collective_timeout: must be above 0 (got 0 ms); write std::chrono::hours{24} to "
        "wait as good as for ever");
}

TEST_CASE("a run refuses what its checkpoints refuse") {
  CHECK(thrown_error([] {
          RunConfig{.checkpoint = {.num_to_keep = 0}}.validate();
        }).starts_with("invalid_config: CheckpointConfig::num_to_keep"));
}
