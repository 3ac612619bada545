// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dlfcn.h>
#include <fmt/format.h>
#include <torch/version.h>

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
  return facts;
}

RAYTRAIN_TORCH_INLINE auto gpu_problem(GpuFacts const& facts) -> std::optional<GpuProblem> {
  if (!facts.unlinked.empty()) {
    return GpuProblem{"this program does not load LibTorch's part with CUDA, " + facts.unlinked.string(),
                      "link it by -Wl,--no-as-needed -ltorch_cuda"};
  }
  if (facts.libtorch_cuda == 0) {
    return GpuProblem{fmt::format("LibTorch {}.{}.{} is built without CUDA", TORCH_VERSION_MAJOR, TORCH_VERSION_MINOR,
                                  TORCH_VERSION_PATCH),
                      "link one that is built with CUDA, as that of Python's package torch: -Dtorch=python"};
  }
  return driver_problem(facts.driver, {"LibTorch", facts.libtorch_cuda});
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
