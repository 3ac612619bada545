// SPDX-License-Identifier: Apache-2.0
// The collectives of GPUs on real ones. What needs more of them than there are is left out, and the test says so.
#include <cuda_runtime_api.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <span>
#include <thread>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/collective/device.hpp>
#include <raytrain/collective/nccl.hpp>
#include <raytrain/core/rank.hpp>
#include <raytrain/core/stopped.hpp>

#include "conformance.hpp"
#include "gpu_world.hpp"
#include "refusals.hpp"

using namespace conformance;
using raytrain::NcclCollective;
using raytrain::NcclGroup;
using raytrain::NcclId;
using raytrain::Reduction;

TEST_CASE_TEMPLATE_INVOKE(collective_conformance, DeviceWorld);
TEST_CASE_TEMPLATE_INVOKE(collective_mismatches, DeviceWorld);
TEST_CASE_TEMPLATE_INVOKE(collective_invalid_calls, DeviceWorld);

namespace {

auto device_count() -> std::uint32_t {
  int devices = 0;
  REQUIRE(cudaGetDeviceCount(&devices) == cudaSuccess);
  MESSAGE("worlds of NCCL of 1 to ", devices, " ranks, as many as there are GPUs");
  return static_cast<std::uint32_t>(devices);
}

/// Every operation on every type with every op.
template <class C>
auto wrong_in_everything(C& collective) -> std::size_t {
  std::size_t wrong = 0;
  for_all_types([&]<class T>(std::type_identity<T>) {
    for (auto const size : {0, 1, 33, 5001, 300'007}) {
      auto const count = static_cast<std::size_t>(size);
      for (auto const op : all_ops) {
        wrong += wrong_in_all_reduce<T>(collective, count + 1, count, op);
        wrong += wrong_in_reduce_scatter<T>(collective, count + 2, count, op, size % 2 == 0);
        wrong += wrong_in_reduce<T>(collective, count + 3, count, op, {collective.size().value - 1});
      }
      for (bool const in_place : {false, true}) {
        wrong += wrong_in_all_gather<T>(collective, count + 4, count, in_place);
        wrong += wrong_in_gather<T>(collective, count + 5, count, {0}, in_place);
        wrong += wrong_in_scatter<T>(collective, count + 6, count, {0}, in_place);
        wrong += wrong_in_all_gatherv<T>(collective, count + 7, count, in_place);
      }
      wrong += wrong_in_broadcast<T>(collective, count + 8, count, {0});
    }
  });
  return wrong;
}

}  // namespace

TEST_CASE("NCCL in rank order gives the bits of a serial loop, in worlds of as many ranks as there are GPUs") {
  auto const devices = device_count();
  for (std::uint32_t ranks = 1; ranks <= devices; ++ranks) {
    CAPTURE(ranks);
    CHECK(wrong_by_rank<NcclWorld<Reduction::rank_order>>(
              {ranks}, [](auto& collective) { return wrong_in_everything(collective); }) == none_wrong(ranks));
  }
}

TEST_CASE("NCCL left to itself gives the same bits in worlds of one and two ranks, where there is one order") {
  auto const devices = device_count();
  for (std::uint32_t ranks = 1; ranks <= std::min(devices, 2U); ++ranks) {
    CAPTURE(ranks);
    CHECK(wrong_by_rank<NcclWorld<Reduction::automatic>>(
              {ranks}, [](auto& collective) { return wrong_in_everything(collective); }) == none_wrong(ranks));
  }
}

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

TEST_CASE("managed memory is taken, pinned and ordinary memory of the host is refused") {
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
          }).find("got memory of the host") != std::string::npos);
  }
  REQUIRE(cudaFreeHost(pinned) == cudaSuccess);
  collective.barrier();
}
