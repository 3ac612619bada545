// SPDX-License-Identifier: Apache-2.0
// The collectives of arrays on a device, held to what every collective does: on a GPU where there is one, and else with
// the CPU as the device.
#include <torch/torch.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <stop_token>
#include <utility>
#include <vector>

#include <c10/core/impl/VirtualGuardImpl.h>

#include <doctest/doctest.h>

#include <raytrain/backend/torch.hpp>
#include <raytrain/backend/torch/detail/device_arrays.hpp>
#include <raytrain/backend/torch/detail/nccl_arrays.hpp>
#include <raytrain/collective/local.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/testing/collective_conformance.hpp>
#include <raytrain/testing/collective_duplicates.hpp>
#include <raytrain/testing/collective_refusals.hpp>

#include "../collective/local_world.hpp"
#include "torch_gpu_run.hpp"

namespace {

auto tested_device() -> at::Device { return has_real_gpu() ? at::Device{at::kCUDA, 0} : at::Device{at::kCPU}; }

/// Takes arrays in CPU memory, as the tests have them, to the device and back around each operation.
class Mirrored final : public raytrain::Collective {
 public:
  explicit Mirrored(std::unique_ptr<raytrain::Collective> arrays) : arrays_{std::move(arrays)} {
    if (!has_real_gpu()) return;
    c10::impl::VirtualGuardImpl const guard{at::kCUDA};
    guard.exchangeStream(guard.getStreamFromGlobalPool(tested_device()));
  }

  [[nodiscard]] auto rank() const noexcept -> raytrain::Rank override { return arrays_->rank(); }
  [[nodiscard]] auto size() const noexcept -> raytrain::WorldSize override { return arrays_->size(); }
  [[nodiscard]] auto stop_agreed() const noexcept -> bool override { return arrays_->stop_agreed(); }
  [[nodiscard]] auto duplicate() -> std::unique_ptr<Collective> override {
    return std::make_unique<Mirrored>(arrays_->duplicate());
  }

  [[nodiscard]] auto start(Task const& task) -> Pending override {
    std::span<std::byte const> const from = task.from;
    std::span<std::byte const> const to = task.to;
    auto const overlap =
        !from.empty() && !to.empty() && from.data() < to.data() + to.size() && to.data() < from.data() + from.size();
    auto const* const first = overlap ? std::min(from.data(), to.data()) : from.data();
    auto const* const last =
        overlap ? std::max(from.data() + from.size(), to.data() + to.size()) : from.data() + from.size();
    auto const all = copied({first, last});
    auto const results = overlap ? all : copied(to);
    auto* const begin = static_cast<std::byte*>(all.data_ptr());
    auto* const to_begin = overlap ? begin + (to.data() - first) : static_cast<std::byte*>(results.data_ptr());
    auto on_device = task;
    on_device.from = {begin + (from.data() - first), from.size()};
    on_device.to = {to_begin, to.size()};
    arrays_->start(on_device).wait();
    if (!to.empty()) {
      auto const size = static_cast<std::int64_t>(to.size());
      at::from_blob(task.to.data(), {size}, at::kByte)
          .copy_(at::from_blob(
              to_begin, {size}, {1}, [](void*) {}, at::TensorOptions{at::kByte}.device(tested_device()),
              tested_device()));
    }
    return {};
  }

 private:
  static auto copied(std::span<std::byte const> array) -> at::Tensor {
    auto const size = static_cast<std::int64_t>(array.size());
    if (size == 0) return at::empty({0}, at::TensorOptions{at::kByte}.device(tested_device()));
    return at::from_blob(const_cast<std::byte*>(array.data()), {size}, at::kByte).clone().to(tested_device());
  }

  std::unique_ptr<raytrain::Collective> arrays_;
};

template <class Make>
struct ArraysWorld : LocalWorld {
  static auto sizes() -> std::vector<std::uint32_t> { return {1, 2, 3}; }
  static auto crowd() -> std::uint32_t { return 8; }

  template <class Work>
  static auto outcomes(std::shared_ptr<Group> const& group, Work const& work) -> std::vector<std::exception_ptr> {
    return LocalWorld::outcomes(group, [&](raytrain::LocalCollective& local) {
      Mirrored arrays{Make{}(std::make_unique<raytrain::LocalCollective>(group, local.rank()))};
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

struct MakeShared {
  auto operator()(std::unique_ptr<raytrain::Collective> through_memory) const -> std::unique_ptr<raytrain::Collective> {
    return std::make_unique<raytrain::detail::SharedDeviceArrays>(std::move(through_memory), tested_device());
  }
};
struct MakeThroughMemory {
  auto operator()(std::unique_ptr<raytrain::Collective> through_memory) const -> std::unique_ptr<raytrain::Collective> {
    return std::make_unique<raytrain::detail::ArraysThroughMemory>(std::move(through_memory), tested_device());
  }
};
using Shared = ArraysWorld<MakeShared>;
using ThroughMemory = ArraysWorld<MakeThroughMemory>;

}  // namespace

TEST_CASE_TEMPLATE_INVOKE(collective_conformance, Shared);
TEST_CASE_TEMPLATE_INVOKE(collective_mismatches, Shared);
TEST_CASE_TEMPLATE_INVOKE(collective_invalid_calls, Shared);
TEST_CASE_TEMPLATE_INVOKE(collective_duplicates, Shared);
TEST_CASE_TEMPLATE_INVOKE(collective_conformance, ThroughMemory);
TEST_CASE_TEMPLATE_INVOKE(collective_mismatches, ThroughMemory);
TEST_CASE_TEMPLATE_INVOKE(collective_invalid_calls, ThroughMemory);
TEST_CASE_TEMPLATE_INVOKE(collective_duplicates, ThroughMemory);

TEST_CASE("on a GPU NCCL's operations of a world of one have the arrays' own bits as their results") {
  if (!has_real_gpu()) return;
  auto const* const library = raytrain::detail::NcclLibrary::of_process();
  REQUIRE(library != nullptr);
  auto const group = std::make_shared<raytrain::LocalGroup>(raytrain::WorldSize{1});
  std::stop_source abort;
  raytrain::detail::NcclArrays arrays{
      {.library = *library,
       .through_memory = std::make_unique<raytrain::LocalCollective>(group, raytrain::Rank{0}),
       .device = tested_device(),
       .abort = abort.get_token()}};
  auto const values = at::arange(1000, at::TensorOptions{at::kFloat}.device(tested_device())) / 7;
  for (auto const op : raytrain::testing::all_ops) {
    auto const own = values.clone();
    arrays.all_reduce(std::span<float>{own.data_ptr<float>(), 1000}, op);
    CHECK(at::equal(own, values));
    auto const half = values.to(at::kBFloat16);
    auto const reduced = half.clone();
    arrays.all_reduce(std::span{static_cast<raytrain::BFloat16*>(reduced.data_ptr()), 1000}, op);
    CHECK(at::equal(reduced, half));
  }
  auto const gathered = at::zeros_like(values);
  std::span<float const> const from{values.data_ptr<float>(), 1000};
  std::span<float> const to{gathered.data_ptr<float>(), 1000};
  arrays.broadcast(std::span<float>{values.data_ptr<float>(), 1000}, raytrain::Rank{0});
  arrays.all_gather(from, to);
  CHECK(at::equal(gathered, values));
  gathered.zero_();
  arrays.reduce_scatter(from, to, raytrain::ReduceOp::sum);
  CHECK(at::equal(gathered, values));
  arrays.reduce(to, raytrain::ReduceOp::average, raytrain::Rank{0});
  CHECK(at::equal(gathered, values));
  auto const other = arrays.duplicate();
  other->all_reduce(to, raytrain::ReduceOp::sum);
  CHECK(at::equal(gathered, values));
  abort.request_stop();
  CHECK_THROWS_AS(arrays.all_reduce(to, raytrain::ReduceOp::sum), raytrain::Stopped);
}
