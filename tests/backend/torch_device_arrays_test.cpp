// SPDX-License-Identifier: Apache-2.0
// The collectives of arrays on a device, held to what every collective does; the device is the CPU here.
#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/backend/torch.hpp>
#include <raytrain/backend/torch/detail/device_arrays.hpp>
#include <raytrain/collective/local.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/testing/collective_conformance.hpp>
#include <raytrain/testing/collective_duplicates.hpp>
#include <raytrain/testing/collective_refusals.hpp>

#include "../collective/local_world.hpp"

namespace {

template <class Arrays>
struct ArraysWorld : LocalWorld {
  static auto sizes() -> std::vector<std::uint32_t> { return {1, 2, 3}; }
  static auto crowd() -> std::uint32_t { return 8; }

  template <class Work>
  static auto outcomes(std::shared_ptr<Group> const& group, Work const& work) -> std::vector<std::exception_ptr> {
    return LocalWorld::outcomes(group, [&](raytrain::LocalCollective& local) {
      Arrays arrays{std::make_unique<raytrain::LocalCollective>(group, local.rank()), torch::kCPU};
      work(arrays);
    });
  }
  template <class Work>
  static void run(raytrain::WorldSize size, Work const& work) {
    for (auto const& thrown : outcomes(std::make_shared<Group>(size), work)) {
      if (thrown) std::rethrow_exception(thrown);
    }
  }
};

using Shared = ArraysWorld<raytrain::detail::SharedDeviceArrays>;
using ThroughHost = ArraysWorld<raytrain::detail::ArraysThroughHost>;

}  // namespace

TEST_CASE_TEMPLATE_INVOKE(collective_conformance, Shared);
TEST_CASE_TEMPLATE_INVOKE(collective_mismatches, Shared);
TEST_CASE_TEMPLATE_INVOKE(collective_invalid_calls, Shared);
TEST_CASE_TEMPLATE_INVOKE(collective_duplicates, Shared);
TEST_CASE_TEMPLATE_INVOKE(collective_conformance, ThroughHost);
TEST_CASE_TEMPLATE_INVOKE(collective_mismatches, ThroughHost);
TEST_CASE_TEMPLATE_INVOKE(collective_invalid_calls, ThroughHost);
TEST_CASE_TEMPLATE_INVOKE(collective_duplicates, ThroughHost);
