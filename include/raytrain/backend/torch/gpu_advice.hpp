// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include <raytrain/core/error.hpp>
#include <raytrain/launch/gpu_driver.hpp>

namespace raytrain {

/// What decides whether LibTorch finds a GPU.
struct GpuFacts {
  int libtorch_cuda = 0;             ///< CUDA that LibTorch was built with, as 12040; 0: it has none here.
  std::filesystem::path unlinked{};  ///< LibTorch's part with CUDA, which this program does not load.
  GpuDriver driver{};
};

/// Asks LibTorch, the driver and the environment of this process, and starts the driver.
[[nodiscard]] auto read_gpu_facts() -> GpuFacts;

/// What keeps LibTorch from a GPU, the first thing to mend; none where nothing does.
[[nodiscard]] auto gpu_problem(GpuFacts const& facts) -> std::optional<GpuProblem>;

/// For a GPU without room. `text`: LibTorch's; `memory`: of that GPU, where it is known.
[[nodiscard]] auto out_of_gpu_memory(std::string attempted, std::string_view text, std::optional<GpuMemory> memory)
    -> Error;

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/gpu_advice-inl.hpp>
#endif
