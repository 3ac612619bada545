// SPDX-License-Identifier: Apache-2.0
// Runs with a stand-in for CUDA's driver, RAYTRAIN_TEST_DRIVER.
#include <raytrain/collective/local.hpp>

#include <dlfcn.h>

#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/collective/reduce_op.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/testing/collective_refusals.hpp>

using raytrain::LocalCollective;
using raytrain::Rank;
using raytrain::ReduceOp;
using raytrain::testing::refusal;

TEST_CASE("a collective of CPU memory refuses an array in a GPU's memory, and takes what both can use") {
  auto const group = std::make_shared<raytrain::LocalGroup>(raytrain::WorldSize{1});
  std::vector<float> on_device(4, 1234.5F);
  std::vector<float> managed(4, 1235.5F);
  std::vector<float> on_cpu(4, 1.0F);
  std::vector<float> large(1000, 1234.5F);
  // As a run's first broadcasts are before CUDA starts.
  LocalCollective before_driver{group, Rank{0}};
  LocalCollective before_driver_with_small{group, Rank{0}};
  before_driver.all_reduce(std::span<float>{large}, ReduceOp::sum);
  before_driver_with_small.all_reduce(std::span<float>{on_device}, ReduceOp::sum);

  auto const* const driver = std::getenv("RAYTRAIN_TEST_DRIVER");
  REQUIRE(driver != nullptr);
  REQUIRE(::dlopen(driver, RTLD_NOW) != nullptr);
  CHECK(refusal([&] { before_driver.all_reduce(std::span<float>{large}, ReduceOp::sum); }) ==
        "invalid_call: all_reduce(1000 x float32, sum) on rank 0: values must be in CPU memory (got memory of a "
        "GPU); copy it to CPU memory, or use NcclCollective or DeviceCollective");
  CHECK(refusal([&] {
          for (int call = 0; call < 64; ++call) {
            before_driver_with_small.all_reduce(std::span<float>{on_device}, ReduceOp::sum);
          }
        }).find("values must be in CPU memory") != std::string::npos);

  LocalCollective collective{group, Rank{0}};
  CHECK(refusal([&] { collective.all_reduce(std::span<float>{on_device}, ReduceOp::sum); }) ==
        "invalid_call: all_reduce(4 x float32, sum) on rank 0: values must be in CPU memory (got memory of a "
        "GPU); copy it to CPU memory, or use NcclCollective or DeviceCollective");
  CHECK(refusal([&] {
          collective.all_gather(std::span<float const>{on_cpu}, std::span<float>{on_device});
        }).find("all must be in CPU memory") != std::string::npos);
  CHECK(refusal([&] {
          collective.scatter(std::span<float const>{on_device}, std::span<float>{on_cpu}, Rank{0});
        }).find("all must be in CPU memory") != std::string::npos);
  collective.all_reduce(std::span<float>{managed}, ReduceOp::sum);
  collective.all_reduce(std::span<float>{on_cpu}, ReduceOp::sum);
}
