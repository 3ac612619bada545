// SPDX-License-Identifier: Apache-2.0
#include <raytrain/config/failure_config.hpp>

#include <chrono>
#include <cstdint>
#include <limits>

#include <doctest/doctest.h>

#include "../support/thrown_error.hpp"

using raytrain::FailureConfig;
using raytrain::testing::thrown_error;
using std::chrono::milliseconds;

TEST_CASE("unless told otherwise the first failure ends a run") {
  FailureConfig const config;
  config.validate();
  CHECK(config.max_failures == 0);
}

TEST_CASE("unless told otherwise workers are started again after any number of pre-emptions") {
  CHECK(FailureConfig{}.max_preemptions == -1);
}

TEST_CASE("settings for failures that cannot be are refused with their value") {
  FailureConfig{.max_failures = -1}.validate();
  CHECK(
      thrown_error([] { FailureConfig{.max_failures = -2}.validate(); }) ==
      "invalid_config: FailureConfig::max_failures: must be at least -1 (got -2); write 0 to end at the first failure, "
      "or -1 to start workers again after any number of them");
  FailureConfig{.max_preemptions = 0}.validate();
  CHECK(thrown_error([] { FailureConfig{.max_preemptions = -2}.validate(); }) ==
        "invalid_config: FailureConfig::max_preemptions: must be at least -1 (got -2); write 0 to count each process "
        "that is taken away as a failure, or -1 to start workers again after any number of them");
  CHECK(thrown_error([] { FailureConfig{.backoff = milliseconds{-1}}.validate(); }) ==
        "invalid_config: FailureConfig::backoff: must not be negative (got -1 ms); write 0 to start workers again at "
        "once");
  CHECK(thrown_error([] { FailureConfig{.hang_timeout = milliseconds{-1}}.validate(); }) ==
        "invalid_config: FailureConfig::hang_timeout: must be 0 or at least 500 ms (got -1 ms); write some times the "
        "longest step; 0 lets workers compute for as long as they like");
  CHECK(thrown_error([] { FailureConfig{.max_backoff = milliseconds{9}}.validate(); }) ==
        "invalid_config: FailureConfig::max_backoff: must not be below FailureConfig::backoff (got 9 ms and 10 ms); "
        "write the longest time to wait");
}

TEST_CASE("the back-off doubles up to its limit, and is shortened by at most a half") {
  FailureConfig const config{.backoff = milliseconds{100}, .max_backoff = milliseconds{1000}};
  std::uint32_t failures = 0;
  for (auto const longest : {100, 200, 400, 800, 1000, 1000}) {
    CAPTURE(longest);
    ++failures;
    CHECK(config.backoff_after(failures, 0) == milliseconds{longest});
    CHECK(config.backoff_after(failures, static_cast<std::uint64_t>(longest) / 2) == milliseconds{longest / 2});
    CHECK(config.backoff_after(failures, std::numeric_limits<std::uint64_t>::max()) >= milliseconds{longest / 2});
  }
  CHECK(config.backoff_after(std::numeric_limits<std::uint32_t>::max(), 0) == milliseconds{1000});
  CHECK(FailureConfig{.backoff = milliseconds{0}}.backoff_after(9, 5) == milliseconds{0});
  FailureConfig const longest{.max_failures = 1, .backoff = milliseconds{1}, .max_backoff = milliseconds::max()};
  CHECK(longest.backoff_after(200, 0) == milliseconds::max());
}
