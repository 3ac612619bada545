// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <optional>
#include <string>

#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/launch/gpu_driver.hpp>

namespace raytrain::detail {

/// What the function gives, which is 0 when all is well; -1 without such a function.
template <class... Args>
auto call_in(void* library, char const* name, Args... args) -> int {
  auto* const function = reinterpret_cast<int (*)(Args...)>(::dlsym(library, name));
  return function != nullptr ? function(args...) : -1;
}

inline constexpr char const* driver_library = "libcuda.so.1";

}  // namespace raytrain::detail

namespace raytrain {

// Functions and numbers of the CUDA Driver API. Libraries stay loaded: CUDA's do not bear to be unloaded.
RAYTRAIN_INLINE auto GpuDriver::ask() -> GpuDriver {
  using detail::call_in;
  GpuDriver found;
  if (auto const* const visible = std::getenv("CUDA_VISIBLE_DEVICES")) found.visible = visible;
  auto* const driver = ::dlopen(detail::driver_library, RTLD_LAZY | RTLD_LOCAL);
  if (driver == nullptr) {
    auto const* const problem = ::dlerror();
    found.load_error = problem == nullptr ? "" : problem;
    return found;
  }
  found.is_loaded = true;
  call_in(driver, "cuDriverGetVersion", &found.cuda);
  found.status = call_in(driver, "cuInit", 0U);
  int count = 0;
  if (found.status == 0) call_in(driver, "cuDeviceGetCount", &count);
  for (int at = 0; at < count; ++at) {
    int device = 0;
    std::array<char, 256> name{};
    Gpu gpu;
    call_in(driver, "cuDeviceGet", &device, at);
    call_in(driver, "cuDeviceGetName", name.data(), static_cast<int>(name.size()) - 1, device);
    call_in(driver, "cuDeviceTotalMem_v2", &gpu.memory_bytes, device);
    gpu.name = name.data();
    found.gpus.push_back(gpu);
  }
  return found;
}

RAYTRAIN_INLINE auto driver_problem(GpuDriver const& driver, GpuLibrary const& library) -> std::optional<GpuProblem> {
  auto const wanted = cuda_version_text(library.cuda);
  if (!driver.is_loaded) {
    return GpuProblem{"NVIDIA's driver cannot be loaded: " + driver.load_error,
                      fmt::format("install a driver{}, which brings libcuda.so.1; a container gets the host's, as by "
                                  "docker run --gpus all",
                                  library.cuda == 0 ? "" : " for CUDA " + wanted + " or newer")};
  }
  if (!driver.supports(library.cuda)) {
    return GpuProblem{fmt::format("NVIDIA's driver supports CUDA up to {}, and {} is built with {}",
                                  cuda_version_text(driver.cuda), library.name, wanted),
                      fmt::format("install a driver for CUDA {} or newer, or {} for CUDA {}", wanted, library.name,
                                  cuda_version_text(driver.cuda))};
  }
  if (driver.status != 0 && driver.status != GpuDriver::no_gpu) {
    return GpuProblem{fmt::format("NVIDIA's driver does not start (cuInit gives {})", driver.status),
                      "see what nvidia-smi and dmesg tell"};
  }
  if (!driver.gpus.empty()) return std::nullopt;
  if (auto const& visible = driver.visible) {
    auto const hides_all = visible->empty() || visible->starts_with('-');
    return GpuProblem{fmt::format("CUDA_VISIBLE_DEVICES is '{}', which {}", *visible,
                                  hides_all ? "hides all GPUs" : "leaves none of this host's GPUs to see"),
                      "unset it, or write numbers that nvidia-smi lists, as CUDA_VISIBLE_DEVICES=0,1"};
  }
  return GpuProblem{"NVIDIA's driver finds no GPU",
                    "see whether nvidia-smi lists one; a container gets GPUs by docker run --gpus all, a job of "
                    "Slurm's by --gpus"};
}

RAYTRAIN_INLINE void refuse_use_gpu(GpuProblem const& problem) {
  throw Error{Errc::invalid_config, "ScalingConfig::use_gpu", "is set, and " + problem.happened,
              problem.remedy + "; or leave use_gpu out to train on the CPU"};
}

RAYTRAIN_INLINE auto gpu_memory() -> std::optional<GpuMemory> {
  auto* const driver = ::dlopen(detail::driver_library, RTLD_LAZY | RTLD_NOLOAD);
  if (driver == nullptr) return std::nullopt;
  GpuMemory memory;
  if (detail::call_in(driver, "cuMemGetInfo_v2", &memory.free_bytes, &memory.total_bytes) != 0) return std::nullopt;
  return memory;
}

RAYTRAIN_INLINE auto installed_nccl() -> std::optional<int> {
  auto* const nccl = ::dlopen("libnccl.so.2", RTLD_LAZY | RTLD_LOCAL);
  if (nccl == nullptr) return std::nullopt;
  int version = 0;
  detail::call_in(nccl, "ncclGetVersion", &version);
  return version;
}

RAYTRAIN_INLINE auto cuda_version_text(int version) -> std::string {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

RAYTRAIN_INLINE auto gibibytes_text(std::size_t bytes) -> std::string {
  constexpr double gibibyte = 1 << 30;
  return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / gibibyte);
}

}  // namespace raytrain
