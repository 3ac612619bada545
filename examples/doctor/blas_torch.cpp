#include <string>

#include <fmt/format.h>

#include <ATen/Parallel.h>
#include <torch/version.h>

#include <raytrain/backend/torch/cpu_advice.hpp>

#include "blas.hpp"

void examine_blas(Findings& findings) {
  at::init_num_threads();  // without a call the linker would leave out LibTorch, which brings the BLAS
  auto const blas = raytrain::read_blas_facts();
  std::string text = "unknown";
  if (!blas.openblas_core.empty()) text = "OpenBLAS with its " + blas.openblas_core + " kernels";
  if (!blas.reference_blas.empty()) text = "the reference BLAS, " + blas.reference_blas.string();
  findings.say("LibTorch", fmt::format("{}, BLAS: {}", TORCH_VERSION, text));
  if (auto advice = raytrain::blas_advice(blas)) findings.advise(*std::move(advice));
}
