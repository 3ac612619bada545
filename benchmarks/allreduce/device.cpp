// SPDX-License-Identifier: Apache-2.0
// all_reduce of workers that share a GPU: the fused kernel alone and the whole operation, against the bound, which is
// what the device's own copy reads and writes in a second. float32, sum.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include <raytrain/collective/cuda/detail/device_reduction.hpp>
#include <raytrain/collective/cuda/device_memory.hpp>
#include <raytrain/collective/device.hpp>
#include <raytrain/core/identifiers.hpp>

namespace {

using raytrain::detail::check_cuda;

constexpr int skipped = 77;
constexpr int repeats = 20;

class Array {
 public:
  explicit Array(std::size_t count) : count_{count} {
    check_cuda(cudaMalloc(&memory_, count * sizeof(float)), "an array on the device");
  }
  Array(Array&& other) noexcept : count_{other.count_}, memory_{std::exchange(other.memory_, nullptr)} {}
  auto operator=(Array&&) -> Array& = delete;
  ~Array() { (void)cudaFree(memory_); }

  void fill(float value) {
    std::vector<float> const values(count_, value);
    check_cuda(cudaMemcpy(memory_, values.data(), count_ * sizeof(float), cudaMemcpyDefault), "cudaMemcpy");
  }
  void must_hold(float value) const {
    std::vector<float> values(count_);
    check_cuda(cudaMemcpy(values.data(), memory_, count_ * sizeof(float), cudaMemcpyDefault), "cudaMemcpy");
    if (std::ranges::count(values, value) != static_cast<std::ptrdiff_t>(count_)) throw std::runtime_error{"wrong sum"};
  }
  [[nodiscard]] auto data() const -> float* { return static_cast<float*>(memory_); }
  [[nodiscard]] auto span() const -> std::span<float> { return {data(), count_}; }

 private:
  std::size_t count_;
  void* memory_ = nullptr;
};

/// Seconds on the device of the fastest of several runs, each of which puts `work` on the default stream.
auto device_seconds(std::function<void()> const& work) -> double {
  cudaEvent_t begin{};
  cudaEvent_t end{};
  check_cuda(cudaEventCreate(&begin), "cudaEventCreate");
  check_cuda(cudaEventCreate(&end), "cudaEventCreate");
  float best_ms = 1e9F;
  for (int i = 0; i < repeats; ++i) {
    check_cuda(cudaEventRecord(begin, nullptr), "cudaEventRecord");
    work();
    check_cuda(cudaEventRecord(end, nullptr), "cudaEventRecord");
    check_cuda(cudaEventSynchronize(end), "what is measured");
    float took_ms = 0;
    check_cuda(cudaEventElapsedTime(&took_ms, begin, end), "cudaEventElapsedTime");
    best_ms = std::min(best_ms, took_ms);
  }
  (void)cudaEventDestroy(begin);
  (void)cudaEventDestroy(end);
  return best_ms / 1e3;
}

auto copy_seconds(std::size_t count) -> double {
  Array const from{count};
  Array const to{count};
  return device_seconds([&] {
    check_cuda(cudaMemcpyAsync(to.data(), from.data(), count * sizeof(float), cudaMemcpyDeviceToDevice, nullptr),
               "cudaMemcpyAsync");
  });
}

auto kernel_seconds(std::vector<Array>& arrays, std::size_t count) -> double {
  raytrain::detail::DeviceReduction reduction{.element = raytrain::ElementType::float32,
                                              .op = raytrain::ReduceOp::sum,
                                              .arrays = static_cast<std::uint32_t>(arrays.size()),
                                              .count = count};
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    arrays[i].fill(1);
    reduction.table[i] = arrays[i].data();
  }
  auto const launch = [&] { check_cuda(raytrain::detail::reduce_on_device(reduction, nullptr), "reduce_on_device"); };
  launch();
  for (auto const& array : arrays) array.must_hold(static_cast<float>(arrays.size()));
  return device_seconds(launch);
}

/// From the first rank's call to its return, of the fastest.
auto operation_seconds(std::vector<Array> const& arrays) -> double {
  auto const group =
      std::make_shared<raytrain::DeviceGroup>(raytrain::WorldSize{static_cast<std::uint32_t>(arrays.size())});
  double best = 1e9;
  std::vector<std::jthread> threads;
  for (std::uint32_t rank = 0; rank < arrays.size(); ++rank) {
    threads.emplace_back([&, rank] {
      raytrain::DeviceCollective collective{group, raytrain::Rank{rank}};
      for (int i = 0; i < repeats; ++i) {
        collective.barrier();
        auto const begin = std::chrono::steady_clock::now();
        collective.all_reduce(arrays[rank].span(), raytrain::ReduceOp::max);
        std::chrono::duration<double> const took = std::chrono::steady_clock::now() - begin;
        if (rank == 0) best = std::min(best, took.count());
      }
    });
  }
  threads.clear();
  return best;
}

}  // namespace

auto main() -> int try {
  int devices = 0;
  if (auto const result = cudaGetDeviceCount(&devices); result != cudaSuccess || devices == 0) {
    std::printf("This benchmark needs an NVIDIA GPU, and CUDA finds none: %s.\n", cudaGetErrorString(result));
    return skipped;
  }
  std::printf("%8s %12s %14s %14s %10s %16s\n", "workers", "bytes", "copy GB/s", "kernel GB/s", "of bound",
              "operation us");
  for (std::size_t const workers : {2U, 4U, 8U}) {
    for (std::size_t const bytes : {std::size_t{1} << 20U, std::size_t{16} << 20U, std::size_t{256} << 20U}) {
      auto const count = bytes / sizeof(float);
      std::vector<Array> arrays;
      for (std::size_t i = 0; i < workers; ++i) arrays.emplace_back(count);
      // The kernel reads and writes as many bytes as a copy of all arrays.
      auto const moved = 2.0 * static_cast<double>(workers * bytes);
      auto const copy = moved / copy_seconds(count * workers) / 1e9;
      auto const kernel = moved / kernel_seconds(arrays, count) / 1e9;
      std::printf("%8zu %12zu %14.1f %14.1f %9.0f%% %16.1f\n", workers, bytes, copy, kernel, 100 * kernel / copy,
                  operation_seconds(arrays) * 1e6);
    }
  }
  return 0;
} catch (std::exception const& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
