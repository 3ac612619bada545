// SPDX-License-Identifier: Apache-2.0
#include <raytrain/config/scaling_config.hpp>

#include <cstdint>
#include <limits>

#include <doctest/doctest.h>

#include "../support/thrown_error.hpp"

// A config that names some of its fields compiles without a warning about the others.
#pragma GCC diagnostic error "-Wmissing-field-initializers"

using raytrain::ScalingConfig;
using raytrain::testing::thrown_error;

TEST_CASE("unless told otherwise one worker trains, with an equal share of the cores and not bound to any") {
  ScalingConfig const config;
  config.validate();
  CHECK_FALSE(config.num_workers.is_set());
  CHECK(config.world_size() == raytrain::WorldSize{1});
  CHECK(config.launch == raytrain::Launch::automatic);
  CHECK(config.resources_per_worker.cpus == 0);
  CHECK_FALSE(config.pin_cpus);
}

TEST_CASE("a worker count that is written is the world's size") {
  ScalingConfig const config{.num_workers = 4, .resources_per_worker = {.cpus = 2}};
  config.validate();
  CHECK(config.num_workers.is_set());
  CHECK(config.world_size() == raytrain::WorldSize{4});
  CHECK(config.resources_per_worker.cpus == 2);
}

TEST_CASE("one worker and the largest number of them are accepted") {
  ScalingConfig{.num_workers = 1}.validate();
  ScalingConfig{.num_workers = ScalingConfig::max_workers}.validate();
}

TEST_CASE("two numbers are the fewest and the most workers of an elastic run") {
  ScalingConfig const config{.num_workers = {2, 8}};
  config.validate();
  CHECK(config.num_workers.is_elastic());
  CHECK(config.world_size() == raytrain::WorldSize{8});
  CHECK(config.num_workers.text() == "2 to 8");
  CHECK_FALSE(ScalingConfig{.num_workers = {2, 2}}.num_workers.is_elastic());
  CHECK_FALSE(ScalingConfig{}.num_workers.is_elastic());
  CHECK(thrown_error([] {
          ScalingConfig{.num_workers = {4, 2}}.validate();
        }) ==
        "invalid_config: ScalingConfig::num_workers: is {fewest, most}, and the first one must not be the larger one "
        "(got "
        "4 to 2); write {.scaling = {.num_workers = {2, 4}}}");
  CHECK(thrown_error([] {
          ScalingConfig{.num_workers = {0, 3}}.validate();
        }) ==
        "invalid_config: ScalingConfig::num_workers: must be from 1 to 4096 (got 0); write {.scaling = {.num_workers = "
        "{1, 3}}}");
}

TEST_CASE("zero workers are refused, and the message says what to write") {
  CHECK(thrown_error([] { ScalingConfig{.num_workers = 0}.validate(); }) ==
        "invalid_config: ScalingConfig::num_workers: must be from 1 to 4096 (got 0); write {.scaling = {.num_workers = "
        "1}}");
}

TEST_CASE("a worker count out of range is refused with the number that was written") {
  auto const refusal = [](auto count) { return thrown_error([&] { ScalingConfig{.num_workers = count}.validate(); }); };
  CHECK(refusal(-1).find("(got -1)") != std::string::npos);
  CHECK(refusal(4097).find("(got 4097)") != std::string::npos);
  CHECK(refusal(4294967297LL).find("(got 4294967297)") != std::string::npos);
  CHECK(refusal(std::numeric_limits<std::int64_t>::min()).find("(got -9223372036854775808)") != std::string::npos);
  CHECK(refusal(std::numeric_limits<std::uint64_t>::max()).starts_with("invalid_config: ScalingConfig::num_workers"));
}

TEST_CASE("resources of one's own are counted on hosts, in amounts above 0 and by names that a host file can have") {
  auto const refusal = [](std::string const& name, double amount, raytrain::Launch launch) {
    return thrown_error([&] {
      ScalingConfig{.launch = launch, .resources_per_worker = {.custom = {{name, amount}}}}.validate();
    });
  };
  using enum raytrain::Launch;
  ScalingConfig{.launch = mpirun, .resources_per_worker = {.custom = {{"license", 0.5}}}}.validate();
  CHECK(
      refusal("license", 0, mpirun) ==
      "invalid_config: ScalingConfig::resources_per_worker.custom: must be above 0 (got 0.000000 of 'license'); leave "
      "it out, or write 0.5");
  CHECK(refusal("license", 1, threads) ==
        "invalid_config: ScalingConfig::resources_per_worker.custom: names 'license', of which only the hosts of "
        "Launch::mpirun say how much they have; write .launch = Launch::mpirun, or leave it out");
  for (auto const* const name : {"", "a b", "a=b", "#", "slots", "max_slots"}) {
    CAPTURE(name);
    CHECK(refusal(name, 1, mpirun).find("cannot be told from what else") != std::string::npos);
  }
}

TEST_CASE("what starts the job of Launch::mpirun is refused with another launch, where nothing would look at it") {
  using enum raytrain::Launch;
  for (auto const launch : {automatic, threads, ranks, processes}) {
    ScalingConfig{.launch = launch, .job_command = {"mpirun"}}.validate();
    CHECK(thrown_error([&] {
            ScalingConfig{.launch = launch, .job_command = {"srun", "--mpi=pmix"}}.validate();
          }) ==
          "invalid_config: ScalingConfig::job_command: is set (got 'srun --mpi=pmix'), and starts workers with "
          "Launch::mpirun alone; write .launch = Launch::mpirun, or leave it out");
  }
  ScalingConfig{.launch = mpirun, .job_command = {"srun", "--mpi=pmix"}}.validate();
}

TEST_CASE("a negative number of cores is refused, and the message says what to write") {
  CHECK(thrown_error([] { ScalingConfig{.start_timeout = std::chrono::seconds{-1}}.validate(); }) ==
        "invalid_config: ScalingConfig::start_timeout: must not be negative (got -1000 ms); write 0 for as long as it "
        "takes");
  CHECK(thrown_error([] { ScalingConfig{.job_command = {}}.validate(); }) ==
        "invalid_config: ScalingConfig::job_command: must name a program (got none); write {.scaling = {.job_command = "
        "{\"mpirun\"}}}");
  CHECK(thrown_error([] { ScalingConfig{.resources_per_worker = {.cpus = -2}}.validate(); }) ==
        "invalid_config: ScalingConfig::resources_per_worker.cpus: must not be negative (got -2); write 0 for an equal "
        "share of the cores");
}
