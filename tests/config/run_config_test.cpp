// SPDX-License-Identifier: Apache-2.0
#include <raytrain/config/run_config.hpp>

#include <chrono>
#include <map>
#include <string>
#include <utility>

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

TEST_CASE("metadata without a key, that is no text, or that is too large is refused with what is wrong of it") {
  auto const refusal = [](std::map<std::string, std::string> metadata) {
    return thrown_error([&] { RunConfig{.metadata = std::move(metadata)}.validate(); });
  };
  CHECK(refusal({{"", "mlp"}}) ==
        "invalid_config: RunConfig::metadata: must not have an empty key (got one with the value 'mlp'); name it");
  CHECK(refusal({{"weights", "\xFF\x01"}})
            .starts_with("invalid_config: RunConfig::metadata: must be UTF-8 text "
                         "('weights' is not); encode bytes as text, "));
  CHECK(refusal({{"k\x80", ""}}).find("('k\xEF\xBF\xBD' is not)") != std::string::npos);
  auto const most = RunConfig::max_metadata_bytes;
  RunConfig{.metadata = {{"a", std::string(most - 1, 'x')}}}.validate();
  CHECK(refusal({{"a", std::string(most - 1, 'x')}, {"b", ""}})
            .starts_with("invalid_config: RunConfig::metadata: must have at most 65536 bytes of keys and values (got "
                         "65537); write what is larger to a file"));
}

TEST_CASE("variables that no process can have, or that are each process's own, are refused by their names") {
  auto const refusal = [](std::string name, std::string value = {}) {
    return thrown_error([&] { RunConfig{.env = {{std::move(name), std::move(value)}}}.validate(); });
  };
  CHECK(refusal("A=B") ==
        "invalid_config: RunConfig::env: must have names of letters, digits and '_' that begin with no digit (got "
        "'A=B'); write {.env = {{\"NAME\", \"value\"}}}");
  for (auto const* const name : {"", "1A", "A B", "A-B", "\xC3\xA4"}) {
    CHECK(refusal(name).find("(got '" + std::string{name} + "')") != std::string::npos);
  }
  CHECK(refusal(std::string{"A\0B", 3}).find("(got 'A?B')") != std::string::npos);
  for (auto const* const name : {"RAYTRAIN_PORT", "RANK", "LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMIX_RANK"}) {
    CHECK(refusal(name).starts_with("invalid_config: RunConfig::env: must not have '" + std::string{name} +
                                    "', which raytrain and MPI set themselves; leave it out"));
  }
  CHECK(refusal("A", std::string{"x\0y", 3}) ==
        "invalid_config: RunConfig::env: must have no byte 0 in a value ('A' has one); encode bytes as text");
  RunConfig{.env = {{"A", std::string(131069, 'x')}}}.validate();
  CHECK(
      refusal("A", std::string(131070, 'x')) ==
      "invalid_config: RunConfig::env: must have less than 128 KiB in a variable ('A' has 131070 bytes); write it to a "
      "file, and the file's name into the variable");
  RunConfig{.env = {{"_a1", "any = text\n"}, {"RANKS", ""}, {"OMPI_MCA_btl", "tcp,self"}}}.validate();
}

TEST_CASE("a run refuses what its checkpoints refuse") {
  CHECK(thrown_error([] {
          RunConfig{.checkpoint = {.num_to_keep = 0}}.validate();
        }).starts_with("invalid_config: CheckpointConfig::num_to_keep"));
}
