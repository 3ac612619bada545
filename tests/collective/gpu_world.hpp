// SPDX-License-Identifier: Apache-2.0
// Worlds of workers whose arrays lie on GPUs, for tests that are written for any kind of world and have arrays of the
// host: what they pass is copied to the device before each call and back after it.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <numeric>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/collective/collective.hpp>
#include <raytrain/collective/device.hpp>
#include <raytrain/collective/nccl.hpp>
#include <raytrain/core/identifiers.hpp>

namespace gpu_world {

/// Device memory that holds what these arrays in CPU memory hold. Arrays that overlap there overlap here in the same
/// way, and each begins at a place that is as odd.
class Mirror {
 public:
  explicit Mirror(std::vector<std::span<std::byte const>> arrays) {
    std::erase_if(arrays, [](auto const& array) { return array.data() == nullptr || array.empty(); });
    std::ranges::sort(arrays, std::less<>{}, [](auto const& array) { return array.data(); });
    for (auto const& array : arrays) {
      if (!blocks_.empty() && array.data() < end_of(blocks_.back().host)) {
        auto& host = blocks_.back().host;
        host = {host.data(), std::max(end_of(host), end_of(array))};
      } else {
        blocks_.push_back({array});
      }
    }
    for (auto& block : blocks_) {
      REQUIRE(cudaMalloc(&block.memory, block.host.size() + 16) == cudaSuccess);
      block.device = static_cast<std::byte*>(block.memory) + reinterpret_cast<std::uintptr_t>(block.host.data()) % 16;
      REQUIRE(cudaMemcpy(block.device, block.host.data(), block.host.size(), cudaMemcpyDefault) == cudaSuccess);
    }
  }
  Mirror(Mirror const&) = delete;
  auto operator=(Mirror const&) -> Mirror& = delete;
  ~Mirror() {
    for (auto const& block : blocks_) (void)cudaFree(block.memory);
  }

  template <class T>
  [[nodiscard]] auto operator()(std::span<T> array) const -> std::span<T> {
    auto const bytes = std::as_bytes(array);
    for (auto const& block : blocks_) {
      if (array.empty() || bytes.data() < block.host.data() || bytes.data() >= end_of(block.host)) continue;
      return {reinterpret_cast<T*>(block.device + (bytes.data() - block.host.data())), array.size()};
    }
    return array.empty() ? std::span<T>{} : array;
  }

  template <class T>
  void fetch(std::span<T> array) const {
    auto const device = (*this)(array);
    if (device.data() == nullptr || device.data() == array.data()) return;
    REQUIRE(cudaMemcpy(array.data(), device.data(), array.size_bytes(), cudaMemcpyDefault) == cudaSuccess);
  }

 private:
  struct Block {
    std::span<std::byte const> host;
    void* memory = nullptr;
    std::byte* device = nullptr;
  };
  static auto end_of(std::span<std::byte const> array) -> std::byte const* { return array.data() + array.size(); }

  std::vector<Block> blocks_;
};

/// A collective of device arrays, as one of host arrays.
template <class C>
class OnCpu final : public raytrain::Collective {
 public:
  explicit OnCpu(C collective) : collective_{std::move(collective)} {}

  [[nodiscard]] auto rank() const noexcept -> raytrain::Rank override { return collective_.rank(); }
  [[nodiscard]] auto size() const noexcept -> raytrain::WorldSize override { return collective_.size(); }
  [[nodiscard]] auto stop_agreed() const noexcept -> bool override { return collective_.stop_agreed(); }

  [[nodiscard]] auto start(Task const& task) -> Pending override {
    Mirror const mirror{{task.from, task.to}};
    auto on_device = task;
    on_device.from = mirror(task.from);
    on_device.to = mirror(task.to);
    collective_.start(on_device).wait();
    mirror.fetch(task.to);
    return {};
  }

 private:
  C collective_;
};

/// Calls `work(rank)` as every rank, on its own thread; what it threw, by rank. A rank that ends leaves.
template <class Group, class Work>
auto outcomes(Group& group, Work const& work) -> std::vector<std::exception_ptr> {
  std::vector<std::exception_ptr> thrown(group.size().value);
  std::vector<std::jthread> threads;
  for (std::uint32_t rank = 0; rank < thrown.size(); ++rank) {
    threads.emplace_back([&, rank] {
      try {
        work(raytrain::Rank{rank});
      } catch (...) {
        thrown[rank] = std::current_exception();
      }
      group.leave(raytrain::Rank{rank});
    });
  }
  threads.clear();
  return thrown;
}

inline auto ranks_below(raytrain::WorldSize size) -> std::vector<std::uint32_t> {
  std::vector<std::uint32_t> ranks(size.value);
  std::iota(ranks.begin(), ranks.end(), 0U);
  return ranks;
}

inline void rethrow_first(std::vector<std::exception_ptr> const& thrown) {
  for (auto const& each : thrown)
    if (each) std::rethrow_exception(each);
}

}  // namespace gpu_world

/// Threads that share device 0.
struct DeviceWorld {
  using Group = raytrain::DeviceGroup;

  static auto sizes() -> std::vector<std::uint32_t> { return {1, 2, 3, 4, 7}; }
  static auto crowd() -> std::uint32_t { return 64; }
  static auto has(raytrain::WorldSize) -> bool { return true; }
  static auto ranks_here(raytrain::WorldSize size) { return gpu_world::ranks_below(size); }

  template <class Work>
  static auto outcomes(std::shared_ptr<Group> const& group, Work const& work) -> std::vector<std::exception_ptr> {
    return gpu_world::outcomes(*group, [&](raytrain::Rank rank) {
      gpu_world::OnCpu collective{raytrain::DeviceCollective{group, rank}};
      work(collective);
    });
  }

  template <class Work>
  static void run(raytrain::WorldSize size, Work const& work) {
    gpu_world::rethrow_first(outcomes(std::make_shared<Group>(size), work));
  }
};

/// Threads that have a device each, of the same number as their rank; at most so many, and no more than there are
/// devices.
template <raytrain::Reduction reduction, std::uint32_t most = 64>
struct NcclWorld {
  using Group = raytrain::NcclGroup;

  static auto sizes() -> std::vector<std::uint32_t> {
    std::vector<std::uint32_t> all{1, 2, 3, 4, 7};
    std::erase_if(all, [](std::uint32_t ranks) { return !has({ranks}); });
    return all;
  }
  static auto crowd() -> std::uint32_t {
    int devices = 0;
    REQUIRE(cudaGetDeviceCount(&devices) == cudaSuccess);
    return std::min(most, static_cast<std::uint32_t>(devices));
  }
  static auto has(raytrain::WorldSize size) -> bool { return size.value <= crowd(); }
  static auto ranks_here(raytrain::WorldSize size) { return gpu_world::ranks_below(size); }

  template <class Work>
  static auto outcomes(std::shared_ptr<Group> const& group, Work const& work) -> std::vector<std::exception_ptr> {
    return gpu_world::outcomes(*group, [&](raytrain::Rank rank) {
      auto const device = static_cast<int>(rank.value);
      REQUIRE(cudaSetDevice(device) == cudaSuccess);
      gpu_world::OnCpu collective{raytrain::NcclCollective{group, rank, {.device = device}}};
      work(collective);
    });
  }

  template <class Work>
  static void run(raytrain::WorldSize size, Work const& work) {
    raytrain::NcclOptions const options{.reduction = reduction};
    gpu_world::rethrow_first(outcomes(std::make_shared<Group>(raytrain::NcclId::create(), size, options), work));
  }
};
