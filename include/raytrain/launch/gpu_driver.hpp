// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

/// NVIDIA's driver and NCCL, loaded at run time, so the program also runs without them.
namespace raytrain {

/// A GPU, as the driver tells of it.
struct Gpu {
  std::string name;
  std::size_t memory_bytes = 0;
};

/// Of the GPU that is current on the calling thread.
struct GpuMemory {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
};

/// NVIDIA's driver on this host.
struct GpuDriver {
  static constexpr int no_gpu = 100;  ///< The status where CUDA_VISIBLE_DEVICES leaves none, or there is none.

  bool is_loaded = false;                ///< Whether libcuda.so.1 can be loaded.
  std::string load_error{};              ///< Why it cannot be loaded.
  int status = 0;                        ///< What cuInit gives; 0: the driver runs.
  int cuda = 0;                          ///< The newest version of CUDA that it supports, as 12040 for 12.4.
  std::vector<Gpu> gpus{};               ///< Those that CUDA_VISIBLE_DEVICES leaves to see, in their order.
  std::optional<std::string> visible{};  ///< CUDA_VISIBLE_DEVICES, where it is set.

  /// Starts the driver in this process by cuInit: children that it forks from then on cannot use CUDA. Asked for anew
  /// at each call.
  [[nodiscard]] static auto ask() -> GpuDriver;

  /// Whether programs for that version of CUDA run on it: of 11 and later, any of the same major version or an older
  /// one.
  ///
  /// Source: "CUDA Compatibility", NVIDIA: minor version compatibility.
  [[nodiscard]] auto supports(int program) const noexcept -> bool {
    constexpr int first_compatible = 11000;
    constexpr int major = 1000;
    return program < first_compatible ? cuda >= program : cuda / major >= program / major;
  }
};

/// Why no GPU can be used, and what to do about it.
struct GpuProblem {
  std::string happened;
  std::string remedy;
};

/// What a program uses a GPU by.
struct GpuLibrary {
  std::string name;  ///< As "LibTorch".
  int cuda = 0;      ///< The version that it is built with, as 12040; 0: not known.
};

/// What keeps a library that has CUDA from a GPU: the driver, or CUDA_VISIBLE_DEVICES. None where nothing does.
[[nodiscard]] auto driver_problem(GpuDriver const& driver, GpuLibrary const& library) -> std::optional<GpuProblem>;

/// Errors: always `invalid_config`, of `ScalingConfig::use_gpu`, with the problem, its remedy, and how to train
/// without.
[[noreturn]] void refuse_use_gpu(GpuProblem const& problem);

/// None where the driver is not loaded, or the thread has no GPU.
[[nodiscard]] auto gpu_memory() -> std::optional<GpuMemory>;

/// Version of libnccl.so.2, as 21805 for 2.18.5; none where it cannot be loaded.
[[nodiscard]] auto installed_nccl() -> std::optional<int>;

/// "12.4" for 12040.
[[nodiscard]] auto cuda_version_text(int version) -> std::string;

/// "79.1 GiB".
[[nodiscard]] auto gibibytes_text(std::size_t bytes) -> std::string;

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/launch/gpu_driver-inl.hpp>
#endif
