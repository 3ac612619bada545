// SPDX-License-Identifier: Apache-2.0
// What processes that share a GPU may take of its memory, by an allocator that only pretends, and by LibTorch's where
// there is a GPU.
#include <torch/torch.h>

#include <cstdint>
#include <optional>
#include <string>

#include <doctest/doctest.h>

#include <raytrain/backend/torch/detail/memory_share.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/launch/device_share.hpp>
#include <raytrain/launch/gpu_driver.hpp>

#include "torch_gpu_run.hpp"

namespace {

using raytrain::WorldSize;
using raytrain::detail::limit_memory;
using raytrain::detail::memory_fraction;
using raytrain::detail::MemoryLimiter;

/// One that knows of limits, and what it was told.
struct PretendedAllocator {
  std::optional<std::string> told{};
  MemoryLimiter limiter{.has_limit = true, .set = [this](std::string const& settings) { told = settings; }};
};

/// The part that a process has with so many workers of those that share a GPU.
auto part_of(std::uint32_t of_process, std::uint32_t workers) -> double {
  raytrain::detail::DeviceShare share;
  share.workers = workers;
  return memory_fraction(share, WorldSize{of_process}).value_or(1);
}

}  // namespace

TEST_CASE("processes that share a GPU have equal parts of its memory, and threads of one process have no part") {
  CHECK(part_of(1, 4) == doctest::Approx(0.95 / 4));
  CHECK(part_of(1, 3) == doctest::Approx(0.95 / 3));
  CHECK(part_of(2, 4) == doctest::Approx(0.95 / 2));
  CHECK(part_of(4, 4) == 1);
  CHECK(part_of(6, 2) == 1);
  CHECK(part_of(1, 1) == 1);
}

TEST_CASE("an allocator is told a process's part beside what it was told before") {
  PretendedAllocator first;
  CHECK_FALSE(limit_memory(0.2375, first.limiter));
  CHECK(first.told == "per_process_memory_fraction:0.2375");
  PretendedAllocator second;
  second.limiter.settings = "max_split_size_mb:64";
  CHECK_FALSE(limit_memory(0.475, second.limiter));
  CHECK(second.told == "max_split_size_mb:64,per_process_memory_fraction:0.475");
}

TEST_CASE("a part of the memory that the program's own settings name is left as it is") {
  PretendedAllocator pretended;
  pretended.limiter.settings = "per_process_memory_fraction:0.1";
  pretended.limiter.is_used = true;
  CHECK_FALSE(limit_memory(0.2375, pretended.limiter));
  CHECK_FALSE(pretended.told);
}

TEST_CASE("where an allocator cannot be told of a part the warning names what is missing, and nothing is set") {
  PretendedAllocator old;
  old.limiter.has_limit = false;
  auto const begin =
      std::string{"processes share a GPU, and this one is not kept to its part of the memory, 0.2375 of it: "};
  auto const version = std::to_string(TORCH_VERSION_MAJOR) + '.' + std::to_string(TORCH_VERSION_MINOR);
  CHECK(limit_memory(0.2375, old.limiter) ==
        begin + "LibTorch " + version +
            " has no per_process_memory_fraction; use LibTorch 2.10 or newer, or workers that are threads");
  CHECK_FALSE(old.told);
  PretendedAllocator used;
  used.limiter.is_used = true;
  CHECK(limit_memory(0.2375, used.limiter) ==
        begin +
            "the program has used the GPU before; set PYTORCH_ALLOC_CONF=per_process_memory_fraction:0.2375 for it");
  CHECK_FALSE(used.told);
}

TEST_CASE("LibTorch's allocator knows of parts from version 2.10 on") {
  auto const is_new = TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 10);
  // What is new there comes with LibTorch's part for CUDA.
  if (is_new && !torch::cuda::is_available()) return;
  CHECK(MemoryLimiter::of_libtorch().has_limit == is_new);
}

TEST_CASE("LibTorch gives a process no more of a GPU's memory than its part") {
  auto const limiter = MemoryLimiter::of_libtorch();
  if (!has_real_gpu() || !limiter.has_limit || limiter.is_used) return;
  REQUIRE_FALSE(limit_memory(0.01, limiter));
  auto const options = at::TensorOptions{at::kByte}.device(at::kCUDA);
  auto const small = at::zeros({1}, options);
  auto const memory = raytrain::gpu_memory();
  REQUIRE(memory);
  CHECK_THROWS_AS(at::empty({static_cast<std::int64_t>(memory->total_bytes / 50)}, options), c10::Error);
}
