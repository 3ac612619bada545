// SPDX-License-Identifier: Apache-2.0
// The collectives of GPUs on real ones. What needs more of them than there are is left out, and the test says so.
#include <cuda_runtime_api.h>

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/collective/device.hpp>
#include <raytrain/collective/nccl.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/testing/collective_conformance.hpp>
#include <raytrain/testing/collective_refusals.hpp>

#include "gpu_world.hpp"

using raytrain::NcclCollective;
using raytrain::NcclGroup;
using raytrain::NcclId;
using raytrain::Rank;
using raytrain::ReduceOp;
using raytrain::testing::refusal;

TEST_CASE_TEMPLATE_INVOKE(collective_conformance, DeviceWorld);
TEST_CASE_TEMPLATE_INVOKE(collective_mismatches, DeviceWorld);
TEST_CASE_TEMPLATE_INVOKE(collective_invalid_calls, DeviceWorld);

// As many ranks as there are GPUs; on one GPU that is one.
using InOrder = NcclWorld<raytrain::Reduction::rank_order>;
TEST_CASE_TEMPLATE_INVOKE(collective_conformance, InOrder);
TEST_CASE_TEMPLATE_INVOKE(collective_mismatches, InOrder);
TEST_CASE_TEMPLATE_INVOKE(collective_invalid_calls, InOrder);

// Of two ranks there is one order, so what is left to NCCL can be held to the same bits.
using Automatic = NcclWorld<raytrain::Reduction::automatic, 2>;
TEST_CASE_TEMPLATE_INVOKE(collective_conformance, Automatic);

TEST_CASE("an abort ends within 100 ms the wait for a rank that never comes") {
  auto const group = std::make_shared<NcclGroup>(NcclId::create(), raytrain::WorldSize{2});
  std::chrono::steady_clock::time_point aborted;
  std::jthread const aborts{[&] {
    // NCCL has begun to look for the other rank by then.
    auto const begin = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - begin < std::chrono::seconds{1}) std::this_thread::yield();
    aborted = std::chrono::steady_clock::now();
    group->abort();
  }};
  CHECK_THROWS_AS(NcclCollective(group, Rank{0}), raytrain::Stopped);
  auto const took = std::chrono::steady_clock::now() - aborted;
  CHECK(std::chrono::duration_cast<std::chrono::milliseconds>(took).count() <= 100);
}

TEST_CASE("managed memory is taken, pinned and ordinary CPU memory is refused") {
  auto const group = std::make_shared<NcclGroup>(NcclId::create(), raytrain::WorldSize{1});
  NcclCollective collective{group, Rank{0}};
  void* managed = nullptr;
  REQUIRE(cudaMallocManaged(&managed, 400) == cudaSuccess);
  collective.all_reduce(std::span{static_cast<float*>(managed), 100}, ReduceOp::sum);
  REQUIRE(cudaFree(managed) == cudaSuccess);
  void* pinned = nullptr;
  REQUIRE(cudaMallocHost(&pinned, 400) == cudaSuccess);
  std::vector<float> ordinary(100);
  for (auto* const memory : {static_cast<float*>(pinned), ordinary.data()}) {
    CHECK(refusal([&] {
            collective.all_reduce(std::span{memory, 100}, ReduceOp::sum);
          }).find("got memory of the CPU") != std::string::npos);
  }
  REQUIRE(cudaFreeHost(pinned) == cudaSuccess);
  collective.barrier();
}
