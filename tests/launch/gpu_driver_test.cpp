// SPDX-License-Identifier: Apache-2.0
// Runs with a stand-in for CUDA's driver, RAYTRAIN_TEST_DRIVER.
#include <raytrain/launch/gpu_driver.hpp>

#include <cstdlib>

#include <doctest/doctest.h>

#include "../support/pretended_driver.hpp"

using raytrain::GpuDriver;
using raytrain::testing::PretendedDriver;

TEST_CASE("a driver tells its version, its GPUs and the memory of the current one") {
  PretendedDriver const pretended{2};
  ::setenv("RAYTRAIN_TEST_DRIVER_CUDA", "12040", 1);
  auto const driver = GpuDriver::ask();
  CHECK(driver.is_loaded);
  CHECK(driver.status == 0);
  CHECK(raytrain::cuda_version_text(driver.cuda) == "12.4");
  CHECK_FALSE(driver.visible);
  REQUIRE(driver.gpus.size() == 2);
  CHECK(driver.gpus[1].name == "Fake GPU");
  CHECK(raytrain::gibibytes_text(driver.gpus[1].memory_bytes) == "8.0 GiB");
  auto const memory = raytrain::gpu_memory();
  REQUIRE(memory);
  CHECK(raytrain::gibibytes_text(memory->free_bytes) == "0.5 GiB");
}

TEST_CASE("a driver whose GPUs are all hidden still tells its version") {
  PretendedDriver const pretended{2};
  pretended.hide_all_gpus();
  auto const driver = GpuDriver::ask();
  CHECK(driver.is_loaded);
  CHECK(driver.status == GpuDriver::no_gpu);
  CHECK(driver.cuda > 0);
  CHECK(driver.gpus.empty());
  CHECK(driver.visible == "");
}

TEST_CASE("a driver supports CUDA of its own major version, and older ones") {
  GpuDriver const driver{.cuda = 12020};
  CHECK(driver.supports(12080));
  CHECK(driver.supports(11080));
  CHECK(driver.supports(10020));
  CHECK_FALSE(driver.supports(13000));
  CHECK_FALSE(GpuDriver{.cuda = 10010}.supports(10020));
}
