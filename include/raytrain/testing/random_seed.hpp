// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstdlib>
#include <random>

#include <doctest/doctest.h>

namespace raytrain::testing {

/// Another seed in every run, printed; RAYTRAIN_TEST_SEED repeats one.
[[nodiscard]] inline auto random_seed() -> std::uint64_t {
  auto const* const given = std::getenv("RAYTRAIN_TEST_SEED");
  auto const seed = given != nullptr ? std::strtoull(given, nullptr, 10) : std::uint64_t{std::random_device{}()};
  MESSAGE("RAYTRAIN_TEST_SEED=", seed);
  return seed;
}

}  // namespace raytrain::testing
