// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include <raytrain/core/identifiers.hpp>

namespace raytrain {

/// Widest vector instructions of a processor that matter to a BLAS.
enum class VectorUnit : std::uint8_t { other, avx2, avx512 };

/// What this process multiplies matrices with.
struct BlasFacts {
  VectorUnit processor = VectorUnit::other;
  std::string openblas_core{};             ///< Kernels that OpenBLAS chose, such as "Haswell"; empty: no OpenBLAS.
  std::filesystem::path reference_blas{};  ///< File of the reference BLAS; empty: another BLAS is in use.
};

/// Asks the processor and the libraries of this process.
[[nodiscard]] auto read_blas_facts() -> BlasFacts;

/// What to do about a BLAS that runs at a fraction of this machine's speed; nothing when it does not.
[[nodiscard]] auto blas_advice(BlasFacts const& facts) -> std::optional<std::string>;

/// What to do when the workers of one host want more threads than it has cores; nothing when they do not.
[[nodiscard]] auto thread_advice(WorldSize workers, int cpus_per_worker, unsigned cores) -> std::optional<std::string>;

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/cpu_advice-inl.hpp>
#endif
