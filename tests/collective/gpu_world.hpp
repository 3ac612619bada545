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
#include <type_traits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/collective/collective.hpp>
#include <raytrain/collective/device.hpp>
#include <raytrain/collective/nccl.hpp>
#include <raytrain/collective/reduce_op.hpp>
#include <raytrain/core/element_type.hpp>
#include <raytrain/core/rank.hpp>

namespace gpu_world {

/// Device memory that holds what these arrays of the host hold. Arrays that overlap there overlap here in the same way,
/// and each begins at a place that is as odd.
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
class OnHost {
 public:
  explicit OnHost(C collective) : collective_{std::move(collective)} {}

  [[nodiscard]] auto rank() const noexcept { return collective_.rank(); }
  [[nodiscard]] auto size() const noexcept { return collective_.size(); }
  [[nodiscard]] auto stop_agreed() const noexcept { return collective_.stop_agreed(); }
  void barrier() { collective_.barrier(); }

  template <raytrain::Element T>
  void all_reduce(std::span<T> values, raytrain::ReduceOp op) {
    in_place(values, [&](std::span<T> array) { collective_.all_reduce(array, op); });
  }
  template <raytrain::Element T>
  void broadcast(std::span<T> values, raytrain::Rank root) {
    in_place(values, [&](std::span<T> array) { collective_.broadcast(array, root); });
  }
  template <raytrain::Element T>
  void reduce(std::span<T> values, raytrain::ReduceOp op, raytrain::Rank root) {
    in_place(values, [&](std::span<T> array) { collective_.reduce(array, op, root); });
  }
  template <raytrain::Element T>
  void all_gather(std::span<std::type_identity_t<T> const> mine, std::span<T> all) {
    apart(mine, all, [&](std::span<T const> from, std::span<T> to) { collective_.all_gather(from, to); });
  }
  template <raytrain::Element T>
  void reduce_scatter(std::span<std::type_identity_t<T> const> all, std::span<T> mine, raytrain::ReduceOp op) {
    apart(all, mine, [&](std::span<T const> from, std::span<T> to) { collective_.reduce_scatter(from, to, op); });
  }
  template <raytrain::Element T>
  void gather(std::span<std::type_identity_t<T> const> mine, std::span<T> all, raytrain::Rank root) {
    apart(mine, all, [&](std::span<T const> from, std::span<T> to) { collective_.gather(from, to, root); });
  }
  template <raytrain::Element T>
  void scatter(std::span<std::type_identity_t<T> const> all, std::span<T> mine, raytrain::Rank root) {
    apart(all, mine, [&](std::span<T const> from, std::span<T> to) { collective_.scatter(from, to, root); });
  }
  template <raytrain::Element T>
  void all_gatherv(std::span<std::type_identity_t<T> const> mine, std::span<T> all,
                   std::span<std::size_t const> counts) {
    apart(mine, all, [&](std::span<T const> from, std::span<T> to) { collective_.all_gatherv(from, to, counts); });
  }

 private:
  template <class T, class Call>
  void in_place(std::span<T> values, Call const& call) {
    Mirror const mirror{{std::as_bytes(values)}};
    call(mirror(values));
    mirror.fetch(values);
  }
  template <class T, class Call>
  void apart(std::span<T const> from, std::span<T> to, Call const& call) {
    Mirror const mirror{{std::as_bytes(from), std::as_bytes(to)}};
    call(mirror(from), mirror(to));
    mirror.fetch(to);
  }

  C collective_;
};

static_assert(raytrain::CollectiveOn<OnHost<raytrain::DeviceCollective>, float>);

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
      gpu_world::OnHost collective{raytrain::DeviceCollective{group, rank}};
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
      gpu_world::OnHost collective{raytrain::NcclCollective{group, rank, {.device = device}}};
      work(collective);
    });
  }

  template <class Work>
  static void run(raytrain::WorldSize size, Work const& work) {
    raytrain::NcclOptions const options{.reduction = reduction};
    gpu_world::rethrow_first(outcomes(std::make_shared<Group>(raytrain::NcclId::create(), size, options), work));
  }
};
