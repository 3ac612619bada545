// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include <raytrain/backend/torch/cpu_advice.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain {

RAYTRAIN_TORCH_INLINE auto read_blas_facts() -> BlasFacts {
  BlasFacts facts;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) facts.processor = VectorUnit::avx2;
  if (facts.processor == VectorUnit::avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) {
    facts.processor = VectorUnit::avx512;
  }
#endif
  if (auto* const core = reinterpret_cast<char* (*)()>(dlsym(RTLD_DEFAULT, "openblas_get_corename"))) {
    facts.openblas_core = core();
    return facts;
  }
  // BLIS and ATLAS come under the reference library's file name as well.
  constexpr std::array other_libraries{"bli_init", "ATL_buildinfo"};
  if (std::ranges::any_of(other_libraries, [](char const* name) { return dlsym(RTLD_DEFAULT, name) != nullptr; })) {
    return facts;
  }
  Dl_info info{};
  auto* const sgemm = dlsym(RTLD_DEFAULT, "sgemm_");
  if (sgemm == nullptr || dladdr(sgemm, &info) == 0 || info.dli_fname == nullptr) return facts;
  std::error_code ignored;
  auto const file = std::filesystem::canonical(info.dli_fname, ignored);
  if (file.filename().string().starts_with("libblas.so")) facts.reference_blas = file;
  return facts;
}

RAYTRAIN_TORCH_INLINE auto blas_advice(BlasFacts const& facts) -> std::optional<std::string> {
  if (!facts.reference_blas.empty()) {
    return "LibTorch multiplies matrices with the reference BLAS (" + facts.reference_blas.string() +
           "), 15 to 30 times slower than OpenBLAS; install that: apt-get install libopenblas0-openmp";
  }
  constexpr std::array<std::string_view, 7> with_avx2{"haswell",  "zen",        "excavator",     "skylakex",
                                                      "icelakex", "cooperlake", "sapphirerapids"};
  auto core = facts.openblas_core;
  std::ranges::transform(core, core.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  if (core.empty() || facts.processor == VectorUnit::other || std::ranges::find(with_avx2, core) != with_avx2.end()) {
    return std::nullopt;
  }
  return "OpenBLAS does not know this processor and runs its " + facts.openblas_core +
         " kernels at about a third of the speed; before the program starts: export OPENBLAS_CORETYPE=" +
         (facts.processor == VectorUnit::avx512 ? "SkylakeX" : "Haswell");
}

RAYTRAIN_TORCH_INLINE auto thread_advice(WorldSize workers, int cpus_per_worker, unsigned cores)
    -> std::optional<std::string> {
  auto const threads = static_cast<std::uint64_t>(workers.value) * static_cast<std::uint64_t>(cpus_per_worker);
  if (cores == 0 || threads <= cores) return std::nullopt;
  auto const text =
      fmt::format("{} workers with {} {} each share {} {}, which slows all of them down; ", workers.value,
                  cpus_per_worker, cpus_per_worker == 1 ? "thread" : "threads", cores, cores == 1 ? "core" : "cores");
  if (workers.value > cores) return text + fmt::format("write .num_workers = {} or fewer", cores);
  return text +
         fmt::format("write .resources_per_worker = {{.cpus = {}}}, or 0 for an equal share", cores / workers.value);
}

}  // namespace raytrain
