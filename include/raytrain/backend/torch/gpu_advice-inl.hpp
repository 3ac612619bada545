// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dlfcn.h>
#include <fmt/format.h>
#include <torch/version.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <ATen/detail/CUDAHooksInterface.h>

#include <raytrain/backend/torch/gpu_advice.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/launch/gpu_driver.hpp>

namespace raytrain {

RAYTRAIN_TORCH_INLINE auto read_gpu_facts() -> GpuFacts {
  GpuFacts facts{.driver = GpuDriver::ask()};
  auto const& hooks = at::detail::getCUDAHooks();
  if (hooks.hasCUDART()) facts.libtorch_cuda = static_cast<int>(hooks.versionCUDART());
  Dl_info info{};
  if (facts.libtorch_cuda == 0 && dladdr(reinterpret_cast<void*>(&at::detail::getCUDAHooks), &info) != 0 &&
      info.dli_fname != nullptr) {
    auto const library = std::filesystem::path{info.dli_fname}.parent_path() / "libtorch_cuda.so";
    std::error_code ignored;
    if (std::filesystem::exists(library, ignored)) facts.unlinked = library;
  }
  if (auto const* const visible = std::getenv("CUDA_VISIBLE_DEVICES")) facts.visible = visible;
  return facts;
}

RAYTRAIN_TORCH_INLINE auto gpu_problem(GpuFacts const& facts) -> std::optional<GpuProblem> {
  auto const& driver = facts.driver;
  if (!facts.unlinked.empty()) {
    return GpuProblem{"this program does not load LibTorch's part with CUDA, " + facts.unlinked.string(),
                      "link it by -Wl,--no-as-needed -ltorch_cuda"};
  }
  if (facts.libtorch_cuda == 0) {
    return GpuProblem{fmt::format("LibTorch {}.{}.{} is built without CUDA", TORCH_VERSION_MAJOR, TORCH_VERSION_MINOR,
                                  TORCH_VERSION_PATCH),
                      "link one that is built with CUDA, as that of Python's package torch: -Dtorch=python"};
  }
  auto const wanted = cuda_version_text(facts.libtorch_cuda);
  if (!driver.is_here) {
    return GpuProblem{"NVIDIA's driver cannot be loaded: " + driver.problem,
                      fmt::format("install a driver for CUDA {} or newer, which brings libcuda.so.1; a container gets "
                                  "the host's, as by docker run --gpus all",
                                  wanted)};
  }
  if (!driver.supports(facts.libtorch_cuda)) {
    return GpuProblem{fmt::format("NVIDIA's driver supports CUDA up to {}, and LibTorch is built with {}",
                                  cuda_version_text(driver.cuda), wanted),
                      fmt::format("install a driver for CUDA {} or newer, or a LibTorch for CUDA {}", wanted,
                                  cuda_version_text(driver.cuda))};
  }
  if (driver.status != 0 && driver.status != GpuDriver::no_gpu) {
    return GpuProblem{fmt::format("NVIDIA's driver does not start (cuInit gives {})", driver.status),
                      "see what nvidia-smi and dmesg tell"};
  }
  if (!driver.gpus.empty()) return std::nullopt;
  if (facts.visible) {
    auto const hides_all = facts.visible->empty() || facts.visible->starts_with('-');
    return GpuProblem{fmt::format("CUDA_VISIBLE_DEVICES is '{}', which {}", *facts.visible,
                                  hides_all ? "hides all GPUs" : "leaves none of this host's GPUs to see"),
                      "unset it, or write numbers that nvidia-smi lists, as CUDA_VISIBLE_DEVICES=0,1"};
  }
  return GpuProblem{"NVIDIA's driver finds no GPU",
                    "see whether nvidia-smi lists one; a container gets GPUs by docker run --gpus all, a job of "
                    "Slurm's by --gpus"};
}

RAYTRAIN_TORCH_INLINE auto out_of_gpu_memory(std::string attempted, std::string_view text,
                                             std::optional<GpuMemory> memory) -> Error {
  auto const first_line = text.substr(0, text.find('\n'));
  auto const left = memory ? fmt::format(" ({} of its {} are free)", gibibytes_text(memory->free_bytes),
                                         gibibytes_text(memory->total_bytes))
                           : std::string{};
  return {Errc::backend, std::move(attempted), fmt::format("the GPU's memory is full: {}{}", first_line, left),
          "use a smaller batch_size, with ctx.accumulate for as large a step; activation_checkpoint; bf16 by "
          "ctx.autocast; or fewer workers on a GPU, by a larger ScalingConfig::resources_per_worker.gpus"};
}

}  // namespace raytrain
