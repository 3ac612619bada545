#include <string>

#include <fmt/format.h>

#include <ATen/Parallel.h>
#include <torch/version.h>

#include <raytrain/backend/torch/cpu_advice.hpp>
#include <raytrain/backend/torch/gpu_advice.hpp>

#include "blas.hpp"

void examine_blas(Findings& findings) {
  at::init_num_threads();  // without a call the linker would leave out LibTorch, which brings the BLAS
  auto const blas = raytrain::read_blas_facts();
  std::string text = "unknown";
  if (!blas.openblas_core.empty()) text = "OpenBLAS with its " + blas.openblas_core + " kernels";
  if (!blas.reference_blas.empty()) text = "the reference BLAS, " + blas.reference_blas.string();
  auto const facts = raytrain::read_gpu_facts();
  auto const problem = raytrain::gpu_problem(facts);
  auto const cuda = facts.libtorch_cuda == 0
                        ? std::string{"without CUDA"}
                        : fmt::format("for CUDA {}{}", raytrain::cuda_version_text(facts.libtorch_cuda),
                                      problem ? "" : ", which the driver runs");
  findings.say("LibTorch", fmt::format("{}, {}, BLAS: {}", TORCH_VERSION, cuda, text));
  if (auto advice = raytrain::blas_advice(blas)) findings.advise(*std::move(advice));
  if (problem && facts.driver.is_loaded)
    findings.advise("LibTorch trains on no GPU here: " + problem->happened + "; " + problem->remedy);
}
