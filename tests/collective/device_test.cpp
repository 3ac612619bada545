// SPDX-License-Identifier: Apache-2.0
#include <raytrain/collective/device.hpp>

#include <chrono>
#include <cstddef>
#include <latch>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/testing/collective_refusals.hpp>

#include "fake_gpu.hpp"
#include "gpu_world.hpp"

using raytrain::DeviceCollective;
using raytrain::DeviceGroup;
using raytrain::Rank;
using raytrain::ReduceOp;
using raytrain::WorldSize;
using raytrain::testing::refusal;

namespace {

/// Device memory that outlives a call.
class Floats {
 public:
  explicit Floats(std::size_t size) : size_{size} {
    REQUIRE(cudaMalloc(&memory_, size * sizeof(float)) == cudaSuccess);
  }
  Floats(Floats const&) = delete;
  auto operator=(Floats const&) -> Floats& = delete;
  ~Floats() { (void)cudaFree(memory_); }
  auto span() -> std::span<float> { return {static_cast<float*>(memory_), size_}; }

 private:
  std::size_t size_;
  void* memory_ = nullptr;
};

static_assert(std::is_convertible_v<std::shared_ptr<DeviceGroup>, std::shared_ptr<raytrain::CollectiveGroup>>);

void reduce_some(DeviceCollective& collective) {
  Floats values{100};
  collective.all_reduce(values.span(), ReduceOp::sum);
}

}  // namespace

TEST_CASE("a worker's collective can be one of a shared device, with arrays on it alone") {
  auto const group = std::make_shared<DeviceGroup>(WorldSize{2});
  gpu_world::rethrow_first(gpu_world::outcomes(*group, [&](Rank rank) {
    DeviceCollective collective{group, rank};
    auto const buffer = collective.allocate<float>(3);
    float value = static_cast<float>(rank.value + 1);
    REQUIRE(cudaMemcpy(&buffer[2], &value, sizeof value, cudaMemcpyDefault) == cudaSuccess);
    collective.all_reduce(buffer.span(), ReduceOp::sum);
    REQUIRE(cudaMemcpy(&value, &buffer[2], sizeof value, cudaMemcpyDefault) == cudaSuccess);
    CHECK(value == 3);
    CHECK(refusal([&] {
            collective.all_reduce(std::span{&value, 1}, ReduceOp::sum);
          }).find("got memory of the CPU") != std::string::npos);
  }));
}

TEST_CASE("a group of a device is refused with no worker, with more than there may be, and where there is no device") {
  fake_gpu::reset();
  CHECK(refusal([] { DeviceGroup{WorldSize{0}}; }) == "invalid_call: DeviceGroup: needs from 1 to 256 workers (got 0)");
  CHECK(refusal([] { DeviceGroup{WorldSize{257}}; }) ==
        "invalid_call: DeviceGroup: needs from 1 to 256 workers (got 257)");
  fake_gpu::change({.devices = 2});
  CHECK(
      refusal([] { DeviceGroup(WorldSize{1}, 2); }) ==
      "invalid_call: DeviceGroup on device 2: device must be from 0 to 1 (got 2); name a device that nvidia-smi lists "
      "and CUDA_VISIBLE_DEVICES leaves visible");
  CHECK(refusal([] { DeviceGroup(WorldSize{1}, -1); }).find("(got -1)") != std::string::npos);
  fake_gpu::change({.device_count_result = cudaErrorNoDevice});
  CHECK(refusal([] { DeviceGroup{WorldSize{1}}; }) ==
        "backend: DeviceGroup on device 0: cudaErrorNoDevice (as the test wanted); run it where an NVIDIA GPU is, and "
        "let "
        "CUDA_VISIBLE_DEVICES name it; LocalCollective works without one");
  fake_gpu::reset();
}

TEST_CASE("a collective of a device is refused without a group, and with a rank that its group does not have") {
  fake_gpu::reset();
  CHECK(refusal([] { DeviceCollective(nullptr, Rank{0}); }) ==
        "invalid_call: DeviceCollective: needs a group (got null)");
  CHECK(refusal([] {
          DeviceCollective(std::make_shared<DeviceGroup>(WorldSize{2}), Rank{2});
        }).find("rank must be below 2 (got 2)") != std::string::npos);
}

TEST_CASE("CPU memory, or that of another device, is refused by the name of the argument, and the group works on") {
  fake_gpu::reset();
  auto const group = std::make_shared<DeviceGroup>(WorldSize{1}, 1);
  DeviceCollective collective{group, Rank{0}};
  std::vector<float> host(3);
  CHECK(
      refusal([&] { collective.all_reduce(std::span{host}, ReduceOp::sum); }) ==
      "invalid_call: all_reduce(3 x float32, sum) on rank 0: values must lie in the memory of device 1 (got memory of "
      "the CPU); copy it there by cudaMemcpy, or use LocalCollective for arrays in CPU memory");
  Floats elsewhere{3};
  CHECK(
      refusal([&] { collective.scatter(std::span<float const>{host}, elsewhere.span(), Rank{0}); }) ==
      "invalid_call: scatter(3 x float32, root 0) on rank 0: all must lie in the memory of device 1 (got memory of the "
      "CPU); copy it there by cudaMemcpy, or use LocalCollective for arrays in CPU memory");
  CHECK(refusal([&] { collective.broadcast(elsewhere.span(), Rank{0}); }) ==
        "invalid_call: broadcast(3 x float32, root 0) on rank 0: values must lie in the memory of device 1 (got memory "
        "of device 0); give the collective the device of its arrays");
  collective.barrier();
}

TEST_CASE("all_reduce is one kernel, however many ranks and elements there are") {
  fake_gpu::reset();
  auto const group = std::make_shared<DeviceGroup>(WorldSize{7});
  gpu_world::rethrow_first(gpu_world::outcomes(*group, [&](Rank rank) {
    DeviceCollective collective{group, rank};
    for (int i = 0; i < 10; ++i) reduce_some(collective);
  }));
  CHECK(fake_gpu::counts().kernels == 10);
  CHECK(fake_gpu::leaked() == 0);
}

TEST_CASE("an error that CUDA reports to one rank is told to all, and the group works no more") {
  fake_gpu::reset();
  auto const group = std::make_shared<DeviceGroup>(WorldSize{3});
  std::vector<std::string> told(3);
  std::vector<std::string> told_later(3);
  fake_gpu::fail_next("reduce_on_device", cudaErrorIllegalAddress);
  gpu_world::rethrow_first(gpu_world::outcomes(*group, [&](Rank rank) {
    DeviceCollective collective{group, rank};
    told[rank.value] = refusal([&] { reduce_some(collective); });
    told_later[rank.value] = refusal([&] { collective.barrier(); });
  }));
  std::string const cause = "cudaErrorIllegalAddress (as the test wanted)";
  CHECK(told[0] == "backend: all_reduce(100 x float32, sum) on rank 0: " + cause +
                       "; a kernel went wrong, perhaps one before this call: run the program under compute-sanitizer");
  for (std::string const rank : {"1", "2"}) {
    CHECK(told[std::stoul(rank)] == "backend: all_reduce(100 x float32, sum) on rank " + rank + ": rank 0 got " +
                                        cause + " in all_reduce(100 x float32, sum)");
    CHECK(told_later[std::stoul(rank)] == "backend: barrier() on rank " + rank +
                                              ": the group is unusable since rank 0 got " + cause +
                                              " in all_reduce(100 x float32, sum); let the error end the training "
                                              "function");
  }
}

TEST_CASE("a rank that waits on its device is told in its own call's name of a rank that ended, and of an abort") {
  fake_gpu::reset();
  auto const group = std::make_shared<DeviceGroup>(WorldSize{2});
  std::string told;
  gpu_world::outcomes(*group, [&](Rank rank) {
    DeviceCollective collective{group, rank};
    reduce_some(collective);
    if (rank == Rank{0}) told = refusal([&] { reduce_some(collective); });
  });
  CHECK(told ==
        "rank_mismatch: collective call: rank 1 has ended while rank 0 waits in all_reduce(100 x float32, sum); make "
        "every rank call the same operations, as often");
  auto const other = std::make_shared<DeviceGroup>(WorldSize{2});
  std::latch waits{1};
  gpu_world::outcomes(*other, [&](Rank rank) {
    DeviceCollective collective{other, rank};
    if (rank == Rank{1}) {
      waits.wait();
      other->abort();
    } else {
      waits.count_down();
      CHECK_THROWS_AS(reduce_some(collective), raytrain::Stopped);
    }
    CHECK_THROWS_AS(collective.barrier(), raytrain::Stopped);
  });
}

TEST_CASE("a rank of a device that waits too long is told so in its own call's name") {
  fake_gpu::reset();
  auto const group =
      std::make_shared<DeviceGroup>(WorldSize{2}, 0, raytrain::WaitLimits{.timeout = std::chrono::milliseconds{30}});
  std::latch told{1};
  gpu_world::rethrow_first(gpu_world::outcomes(*group, [&](Rank rank) {
    DeviceCollective collective{group, rank};
    if (rank == Rank{1}) return told.wait();
    auto const text = refusal([&] { reduce_some(collective); });
    told.count_down();
    CAPTURE(text);
    CHECK(text.find("timed_out: ") == 0);
    CHECK(text.find("all_reduce(100 x float32, sum)") != std::string::npos);
    CHECK(text.find("uint8") == std::string::npos);
  }));
}

TEST_CASE("all ranks of a device agree to stop after the same operation") {
  fake_gpu::reset();
  auto const group = std::make_shared<DeviceGroup>(WorldSize{3});
  std::vector<int> done(3);
  gpu_world::rethrow_first(gpu_world::outcomes(*group, [&](Rank rank) {
    DeviceCollective collective{group, rank};
    do {
      if (rank == Rank{2} && done[2] == 5) group->request_stop();
      reduce_some(collective);
      ++done[rank.value];
    } while (!collective.stop_agreed());
  }));
  CHECK(done == std::vector<int>(3, 6));
}
