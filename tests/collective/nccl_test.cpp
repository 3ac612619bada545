// SPDX-License-Identifier: Apache-2.0
#include <raytrain/collective/nccl.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <latch>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/collective/collective_group.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/testing/collective_conformance.hpp>
#include <raytrain/testing/collective_refusals.hpp>

#include "fake_gpu.hpp"
#include "gpu_world.hpp"

using raytrain::NcclCollective;
using raytrain::NcclGroup;
using raytrain::NcclId;
using raytrain::NcclOptions;
using raytrain::Rank;
using raytrain::ReduceOp;
using raytrain::Reduction;
using raytrain::WorldSize;
using raytrain::testing::refusal;

namespace {

using Host = gpu_world::OnCpu<NcclCollective>;

auto new_group(std::uint32_t size, NcclOptions options = {}) -> std::shared_ptr<NcclGroup> {
  fake_gpu::reset();
  return std::make_shared<NcclGroup>(NcclId::create(), WorldSize{size}, std::move(options));
}

auto on_own_device(std::shared_ptr<NcclGroup> const& group, Rank rank) -> Host {
  auto const device = static_cast<int>(rank.value);
  REQUIRE(cudaSetDevice(device) == cudaSuccess);
  return Host{NcclCollective{group, rank, {.device = device}}};
}

auto reduce_some(Host& collective, ReduceOp op = ReduceOp::sum) -> float {
  std::vector<float> values(100, static_cast<float>(collective.rank().value + 1));
  collective.all_reduce(std::span{values}, op);
  return values[99];
}

}  // namespace

TEST_CASE("a group of NCCL is refused without a worker, without an id, and with no time to wait") {
  fake_gpu::reset();
  auto const id = NcclId::create();
  CHECK(refusal([&] { NcclGroup(id, WorldSize{0}); }) == "invalid_call: NcclGroup: needs at least 1 worker (got 0)");
  CHECK(refusal([] { NcclGroup(NcclId{}, WorldSize{2}); }) ==
        "invalid_call: NcclGroup: needs an id that a rank created (got zeros); broadcast the bytes of NcclId::create() "
        "from one rank to all");
  CHECK(refusal([&] { NcclGroup(id, WorldSize{2}, {.limits = {.timeout = std::chrono::milliseconds{0}}}); }) ==
        "invalid_call: NcclGroup: the timeout must be above 0 (got 0 ms)");
}

static_assert(std::is_convertible_v<std::shared_ptr<NcclGroup>, std::shared_ptr<raytrain::CollectiveGroup>>);

TEST_CASE("an id is another one each time, and whoever gets its bytes has it") {
  fake_gpu::reset();
  auto const id = NcclId::create();
  CHECK(id != NcclId::create());
  NcclId received;
  std::ranges::copy(id.bytes(), received.bytes().begin());
  CHECK(received == id);
}

TEST_CASE("a collective of NCCL says what is missing: group, rank, device, driver, a new enough NCCL") {
  auto const group = new_group(2);
  CHECK(refusal([] { NcclCollective(nullptr, Rank{0}); }) == "invalid_call: NcclCollective: needs a group (got null)");
  CHECK(refusal([&] { NcclCollective(group, Rank{2}); }) ==
        "invalid_call: NcclCollective: rank must be below 2 (got 2)");
  CHECK(
      refusal([&] { NcclCollective(group, Rank{0}, {.device = 64}); }) ==
      "invalid_call: NcclCollective on device 64: device must be from 0 to 63 (got 64); name a device that nvidia-smi "
      "lists and CUDA_VISIBLE_DEVICES leaves visible");
  fake_gpu::change({.device_count_result = cudaErrorInsufficientDriver});
  CHECK(
      refusal([&] { NcclCollective(group, Rank{0}); }) ==
      "backend: NcclCollective on device 0: cudaErrorInsufficientDriver (as the test wanted); install an NVIDIA driver "
      "for this CUDA runtime or a newer one; where there is no GPU, LocalCollective works");
  fake_gpu::change({.nccl_version = 21703});
  CHECK(refusal([&] { NcclCollective(group, Rank{0}); }) ==
        "backend: NcclCollective: needs NCCL 2.18 or newer (found 21703); let the dynamic linker find the libnccl.so.2 "
        "that the program was built with");
  CHECK(fake_gpu::leaked() == 0);
}

TEST_CASE("kernels that were not compiled for the GPU are found out before the first operation") {
  auto const group = new_group(1);
  fake_gpu::fail_next("load_kernels", cudaErrorNoKernelImageForDevice);
  CHECK(refusal([&] { NcclCollective(group, Rank{0}); })
            .find("compile raytrain/collective/cuda/kernels.cu for this GPU's "
                  "architecture") != std::string::npos);
  CHECK(fake_gpu::leaked() == 0);
}

TEST_CASE("two ranks on one device are refused with the class that can do it") {
  auto const group = new_group(2);
  std::vector<std::string> told(2);
  gpu_world::outcomes(*group, [&](Rank rank) { told[rank.value] = refusal([&] { NcclCollective(group, rank); }); });
  auto const expected = std::string{
      "ncclInvalidUsage (as the test wanted); give every rank a GPU of its own (workers "
      "that share one: DeviceCollective)"};
  CHECK(told[0] == "backend: NcclCollective on device 0 on rank 0: " + expected);
  CHECK(told[1] == "backend: NcclCollective on device 0 on rank 1: " + expected);
  CHECK(fake_gpu::counts().aborted == 2);
  CHECK(fake_gpu::leaked() == 0);
}

TEST_CASE("ranks that end well destroy their communicators, and give back all they had on the device") {
  auto const group = new_group(3);
  gpu_world::rethrow_first(gpu_world::outcomes(*group, [&](Rank rank) {
    auto collective = on_own_device(group, rank);
    CHECK(reduce_some(collective) == 6);
    auto moved = std::move(collective);
    CHECK(reduce_some(moved, ReduceOp::max) == 3);
  }));
  CHECK(fake_gpu::counts().destroyed == 3);
  CHECK(fake_gpu::counts().aborted == 0);
  CHECK(fake_gpu::leaked() == 0);
}

TEST_CASE("CPU memory, or that of another device, is refused by its name in the call, and the group works on") {
  auto const group = new_group(1);
  NcclCollective collective{group, Rank{0}, {.device = 1}};
  std::vector<float> host(3);
  CHECK(
      refusal([&] { collective.reduce_scatter(std::span<float const>{host}, std::span{host}, ReduceOp::sum); }) ==
      "invalid_call: reduce_scatter(3 x float32, sum) on rank 0: all must lie in the memory of device 1 (got memory of "
      "the CPU); copy it there by cudaMemcpy, or use LocalCollective for arrays in CPU memory");
  collective.barrier();
}

TEST_CASE("an abort ends the wait of ranks in an operation, which abort their communicators, and all later calls") {
  auto const group = new_group(3);
  std::latch others_wait{2};
  auto const thrown = gpu_world::outcomes(*group, [&](Rank rank) {
    auto collective = on_own_device(group, rank);
    reduce_some(collective);
    if (rank == Rank{2}) {
      others_wait.wait();
      group->abort();
    } else {
      others_wait.count_down();
      CHECK_THROWS_AS(reduce_some(collective), raytrain::Stopped);
    }
    CHECK_THROWS_AS(collective.barrier(), raytrain::Stopped);
    reduce_some(collective);
  });
  for (auto const& each : thrown) CHECK_THROWS_AS(std::rethrow_exception(each), raytrain::Stopped);
  CHECK(fake_gpu::counts().aborted == 3);
  CHECK(fake_gpu::counts().aborted_elsewhere == 0);
  CHECK(fake_gpu::counts().destroyed == 0);
  CHECK(fake_gpu::leaked() == 0);
}

TEST_CASE("an abort ends the wait for ranks that never come to begin with, and nobody begins after it") {
  auto const group = new_group(2);
  std::latch begins{1};
  std::jthread const aborts{[&] {
    begins.wait();
    group->abort();
  }};
  begins.count_down();
  CHECK_THROWS_AS(NcclCollective(group, Rank{0}), raytrain::Stopped);
  CHECK_THROWS_AS(NcclCollective(group, Rank{0}), raytrain::Stopped);
  CHECK(fake_gpu::leaked() == 0);
}

TEST_CASE("whoever waits for a rank of this process that ended is told so, and what ended before it does not matter") {
  for (int run = 0; run < 30; ++run) {
    auto const group = new_group(3);
    std::vector<std::string> told(3);
    std::vector<std::string> told_later(3);
    auto const thrown = gpu_world::outcomes(*group, [&](Rank rank) {
      auto collective = on_own_device(group, rank);
      for (int i = 0; i < run % 3; ++i) reduce_some(collective);
      if (rank == Rank{1}) return;
      told[rank.value] = refusal([&] { reduce_some(collective); });
      told_later[rank.value] = refusal([&] { collective.barrier(); });
    });
    gpu_world::rethrow_first(thrown);
    for (std::string const rank : {"0", "2"}) {
      auto const cause =
          "collective call: rank 1 has ended while rank " + rank + " waits in all_reduce(100 x float32, sum)";
      REQUIRE(told[std::stoul(rank)] ==
              "rank_mismatch: " + cause + "; make every rank call the same operations, as often");
      REQUIRE(told_later[std::stoul(rank)] == "rank_mismatch: barrier() on rank " + rank +
                                                  ": the group is unusable since " + cause +
                                                  "; let the error end the training function");
    }
  }
}

TEST_CASE("ranks whose options differ are refused on every rank, and stay so") {
  fake_gpu::reset();
  auto const id = NcclId::create();
  // Each as in a process of its own.
  std::vector<std::shared_ptr<NcclGroup>> groups;
  for (auto const reduction : {Reduction::automatic, Reduction::rank_order, Reduction::automatic})
    groups.push_back(std::make_shared<NcclGroup>(id, WorldSize{3}, NcclOptions{.reduction = reduction}));
  gpu_world::rethrow_first(gpu_world::outcomes(*groups[0], [&](Rank rank) {
    auto collective = on_own_device(groups[rank.value], rank);
    CHECK(refusal([&] { reduce_some(collective); }) ==
          "rank_mismatch: NcclGroup: the ranks disagree about NcclOptions::reduction; give it the same value on every "
          "rank");
    CHECK(refusal([&] { collective.barrier(); }).find("the ranks disagree about NcclOptions::reduction") !=
          std::string::npos);
  }));
}

TEST_CASE("a worker's collective can be one of NCCL, with arrays on the device alone") {
  auto const group = new_group(2);
  gpu_world::rethrow_first(gpu_world::outcomes(*group, [&](Rank rank) {
    auto const device = static_cast<int>(rank.value);
    REQUIRE(cudaSetDevice(device) == cudaSuccess);
    NcclCollective collective{group, rank, {.device = device}};
    CHECK(collective.takes_device_arrays());
    auto const buffer = collective.allocate<float>(10);
    float value = static_cast<float>(rank.value + 1);
    REQUIRE(cudaMemcpy(&buffer[9], &value, sizeof value, cudaMemcpyDefault) == cudaSuccess);
    collective.all_reduce(buffer.span(), ReduceOp::sum);
    REQUIRE(cudaMemcpy(&value, &buffer[9], sizeof value, cudaMemcpyDefault) == cudaSuccess);
    CHECK(value == 3);
    REQUIRE(cudaMemcpy(&value, &buffer[0], sizeof value, cudaMemcpyDefault) == cudaSuccess);
    CHECK(value == 0);
    CHECK(refusal([&] {
            collective.all_reduce(std::span{&value, 1}, ReduceOp::sum);
          }).find("got memory of the CPU") != std::string::npos);
  }));
}

TEST_CASE("a rank that waits too long is told for whom, and its collective works no more") {
  auto const group = new_group(2, {.limits = {.timeout = std::chrono::milliseconds{30}}});
  std::latch told{1};
  gpu_world::rethrow_first(gpu_world::outcomes(*group, [&](Rank rank) {
    auto collective = on_own_device(group, rank);
    if (rank == Rank{1}) return told.wait();
    CHECK(refusal([&] { reduce_some(collective); }) ==
          "timed_out: all_reduce(100 x float32, sum) on rank 0: rank 1 has not come within 30 ms; look at what is done "
          "there instead, or allow more time: RunConfig::collective_timeout, WaitLimits::timeout");
    CHECK(
        refusal([&] { collective.barrier(); }) ==
        "timed_out: barrier() on rank 0: the group is unusable since all_reduce(100 x float32, sum) on rank 0: rank 1 "
        "has not come within 30 ms; let the error end the training function");
    told.count_down();
  }));
  CHECK(fake_gpu::counts().aborted == 1);
}

TEST_CASE("a rank alone in its process, that waits too long for others to begin, is told that NCCL names none") {
  auto const group = new_group(2, {.limits = {.timeout = std::chrono::milliseconds{20}}});
  CHECK(refusal([&] { NcclCollective(group, Rank{0}); }) ==
        "timed_out: NcclCollective on device 0 on rank 0: the others have not come within 20 ms; look at what is done "
        "there instead, or allow more time: RunConfig::collective_timeout, WaitLimits::timeout");
}

TEST_CASE("the lowest rank that waits warns, once an operation") {
  std::atomic<int> warnings{0};
  std::string warning;
  std::latch warned{1};
  auto const group =
      new_group(3, {.limits = {.warn_after = std::chrono::milliseconds{5}, .on_warning = [&](auto const& text) {
                                 // That ranks come to the group one behind the other has a warning of its own.
                                 if (text.find("all_reduce") == std::string::npos || ++warnings > 1) return;
                                 warning = text;
                                 warned.count_down();
                               }}});
  gpu_world::rethrow_first(gpu_world::outcomes(*group, [&](Rank rank) {
    auto collective = on_own_device(group, rank);
    if (rank == Rank{0}) warned.wait();
    if (rank != Rank{2}) reduce_some(collective);
    if (rank == Rank{2}) {
      warned.wait();
      reduce_some(collective);
    }
  }));
  CHECK(warnings.load() >= 1);
  CHECK(warning == "rank 1 has waited 5 ms in all_reduce(100 x float32, sum) for ranks 0 and 2");
}

TEST_CASE("an error that NCCL finds while ranks wait ends the wait, with NCCL's name for it") {
  auto const group = new_group(2);
  std::latch first_done{2};
  std::vector<std::string> told(2);
  gpu_world::rethrow_first(gpu_world::outcomes(*group, [&](Rank rank) {
    auto collective = on_own_device(group, rank);
    reduce_some(collective);
    first_done.arrive_and_wait();
    if (rank == Rank{1}) fake_gpu::break_communicator(0, ncclRemoteError);
    if (rank == Rank{0})
      told[0] = refusal([&] {
        while (true) reduce_some(collective);
      });
    if (rank == Rank{0}) group->abort();
    if (rank == Rank{1})
      CHECK_THROWS_AS(([&] {
                        while (true) reduce_some(collective);
                      }()),
                      raytrain::Stopped);
  }));
  CHECK(told[0] ==
        "backend: all_reduce(100 x float32, sum) on rank 0: ncclRemoteError (as the test wanted); look at what ended "
        "or cut off "
        "another rank; restart from the last checkpoint");
  CHECK(fake_gpu::counts().aborted == 2);
  CHECK(fake_gpu::leaked() == 0);
}

TEST_CASE("a rank that fails comes to abort the others before NCCL has ended its communicator together with theirs") {
  for (bool const by_nccl : {true, false}) {
    CAPTURE(by_nccl);
    auto const group = new_group(2);
    fake_gpu::change({.ends_together = true});
    auto const begin = std::chrono::steady_clock::now();
    auto const thrown = gpu_world::outcomes(*group, [&](Rank rank) {
      try {
        auto collective = on_own_device(group, rank);
        reduce_some(collective);
        if (rank == Rank{0} && by_nccl) fake_gpu::break_communicator(0, ncclSystemError);
        if (rank == Rank{0} && !by_nccl) throw std::runtime_error{"out of luck"};
        reduce_some(collective);
      } catch (std::exception const&) {
        group->abort();
        throw;
      }
    });
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds{4});  // each end waits for longer
    CHECK_THROWS_AS(std::rethrow_exception(thrown[0]), std::exception);
    CHECK_THROWS_AS(std::rethrow_exception(thrown[1]), raytrain::Stopped);
    CHECK(fake_gpu::counts().aborted == 2);
  }
  CHECK(fake_gpu::leaked() == 0);
}

TEST_CASE("an error of CUDA ends the operation, and the communicator is aborted") {
  auto const group = new_group(1);
  auto collective = on_own_device(group, Rank{0});
  fake_gpu::fail_next("cudaEventQuery", cudaErrorIllegalAddress);
  CHECK(refusal([&] {
          reduce_some(collective);
        }).find("backend: all_reduce(100 x float32, sum) on rank 0: cudaErrorIllegalAddress") == 0);
  CHECK(fake_gpu::counts().aborted == 1);
  CHECK(refusal([&] { reduce_some(collective); })
            .find("backend: all_reduce(100 x float32, sum) on rank 0: the group is "
                  "unusable since") == 0);
}

TEST_CASE("all ranks of NCCL agree to stop after the same operation, whichever is asked") {
  for (std::uint32_t asked = 0; asked < 3; ++asked) {
    auto const id = NcclId::create();
    // As in three processes: each rank has a group of its own.
    std::vector<std::shared_ptr<NcclGroup>> groups;
    for (int i = 0; i < 3; ++i) groups.push_back(std::make_shared<NcclGroup>(id, WorldSize{3}));
    std::vector<int> done(3);
    gpu_world::rethrow_first(gpu_world::outcomes(*groups[0], [&](Rank rank) {
      auto collective = on_own_device(groups[rank.value], rank);
      do {
        if (rank == Rank{asked} && done[asked] == 5) groups[asked]->request_stop();
        reduce_some(collective);
        ++done[rank.value];
      } while (!collective.stop_agreed());
    }));
    CHECK(done == std::vector<int>(3, 6));
  }
}

TEST_CASE("in rank order the bits do not depend on NCCL; left to it they are its own, and the same on every rank") {
  std::vector<float> const values{1e8F, 1, -1e8F};
  for (auto const reduction : {Reduction::automatic, Reduction::rank_order}) {
    auto const group = new_group(3, {.reduction = reduction});
    fake_gpu::change({.reversed = true});
    std::vector<float> results(3);
    gpu_world::rethrow_first(gpu_world::outcomes(*group, [&](Rank rank) {
      auto collective = on_own_device(group, rank);
      std::vector<float> mine(50, values[rank.value]);
      collective.all_reduce(std::span{mine}, ReduceOp::sum);
      results[rank.value] = mine[49];
    }));
    auto const in_rank_order = (values[0] + values[1]) + values[2];
    auto const backwards = (values[2] + values[1]) + values[0];
    REQUIRE(in_rank_order == 0);
    CAPTURE(static_cast<int>(reduction));
    CHECK(results == std::vector<float>(3, reduction == Reduction::rank_order ? in_rank_order : backwards));
    CHECK((fake_gpu::counts().native_reductions > 0) == (reduction == Reduction::automatic));
  }
}

TEST_CASE("what NCCL would round in another way, or lacks, is not left to it") {
  using raytrain::ElementType;
  using raytrain::detail::native_reduction;
  for (auto const op : raytrain::testing::all_ops) {
    bool const picks = op == ReduceOp::min || op == ReduceOp::max;
    for (auto const type : {ElementType::float32, ElementType::float64})
      CHECK(native_reduction(type, op).has_value() == !picks);
    for (auto const type : {ElementType::int8, ElementType::uint8, ElementType::int32, ElementType::uint32,
                            ElementType::int64, ElementType::uint64}) {
      CHECK(native_reduction(type, op).has_value());
    }
    for (auto const type : {ElementType::float16, ElementType::bfloat16, ElementType::int16, ElementType::uint16})
      CHECK_FALSE(native_reduction(type, op).has_value());
  }
}
