// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dlfcn.h>

#include <cstdlib>
#include <string>

#include <doctest/doctest.h>

namespace raytrain::testing {

/// collective/fake_driver.cpp in the place of CUDA's driver, with so many GPUs until its end. A program of tests has
/// its path in RAYTRAIN_TEST_DRIVER.
class PretendedDriver {
 public:
  explicit PretendedDriver(int gpus) {
    auto const* const driver = std::getenv("RAYTRAIN_TEST_DRIVER");
    REQUIRE(driver != nullptr);
    REQUIRE(::dlopen(driver, RTLD_NOW) != nullptr);  // as `dlopen` finds it by its name from then on
    ::setenv("RAYTRAIN_TEST_GPUS", std::to_string(gpus).c_str(), 1);
    ::setenv(newest_cuda, "99000", 1);
    ::unsetenv(started);
  }
  PretendedDriver(PretendedDriver const&) = delete;
  auto operator=(PretendedDriver const&) -> PretendedDriver& = delete;
  ~PretendedDriver() {
    for (auto const* const variable : {"RAYTRAIN_TEST_GPUS", "CUDA_VISIBLE_DEVICES", newest_cuda, started})
      ::unsetenv(variable);
  }

  static void hide_all_gpus() { ::setenv("CUDA_VISIBLE_DEVICES", "", 1); }

  /// Whether somebody has started it since it is there.
  [[nodiscard]] static auto was_started() -> bool { return std::getenv(started) != nullptr; }

 private:
  static constexpr auto newest_cuda = "RAYTRAIN_TEST_DRIVER_CUDA";
  static constexpr auto started = "RAYTRAIN_TEST_DRIVER_STARTED";
};

}  // namespace raytrain::testing
