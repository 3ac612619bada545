// SPDX-License-Identifier: Apache-2.0
#include <raytrain/backend/torch/cpu_advice.hpp>

#include <string>

#include <doctest/doctest.h>

namespace {

using namespace raytrain;

auto advice_for(VectorUnit processor, std::string core) -> std::string {
  return blas_advice({processor, std::move(core), {}}).value_or("");
}

}  // namespace

TEST_CASE("OpenBLAS on kernels older than the processor is told which to ask for") {
  CHECK(advice_for(VectorUnit::avx512, "Prescott") ==
        "OpenBLAS does not know this processor and runs its Prescott kernels at about a third of the speed; before the "
        "program starts: export OPENBLAS_CORETYPE=SkylakeX");
  CHECK(advice_for(VectorUnit::avx2, "prescott").find("OPENBLAS_CORETYPE=Haswell") != std::string::npos);
  CHECK(advice_for(VectorUnit::avx2, "Sandybridge").find("OPENBLAS_CORETYPE=Haswell") != std::string::npos);
}

TEST_CASE("OpenBLAS on kernels that use AVX2, or on an older processor, needs no advice") {
  for (auto const* core : {"Haswell", "Zen", "SkylakeX", "Cooperlake", "SapphireRapids", "HASWELL"}) {
    CHECK(advice_for(VectorUnit::avx512, core).empty());
    CHECK(advice_for(VectorUnit::avx2, core).empty());
  }
  CHECK(advice_for(VectorUnit::other, "Prescott").empty());
  CHECK(advice_for(VectorUnit::avx512, "").empty());
}

TEST_CASE("the reference BLAS is named with the package to install") {
  auto const advice = blas_advice({VectorUnit::avx2, "", "/usr/lib/blas/libblas.so.3.11.0"});
  REQUIRE(advice);
  CHECK(advice->find("/usr/lib/blas/libblas.so.3.11.0") != std::string::npos);
  CHECK(advice->find("apt-get install libopenblas0-openmp") != std::string::npos);
}

TEST_CASE("a program without a BLAS has none to speak of") {
  auto const facts = read_blas_facts();
  CHECK(facts.openblas_core.empty());
  CHECK(facts.reference_blas.empty());
}

TEST_CASE("more threads than cores are advised against with what to write, and as many are not") {
  CHECK_FALSE(thread_advice(WorldSize{2}, 1, 2));
  CHECK_FALSE(thread_advice(WorldSize{2}, 1, 0));
  CHECK(thread_advice(WorldSize{3}, 1, 2).value() ==
        "3 workers with 1 thread each share 2 cores, which slows all of them down; write .num_workers = 2 or fewer");
  CHECK(thread_advice(WorldSize{2}, 3, 4).value() ==
        "2 workers with 3 threads each share 4 cores, which slows all of them down; write .resources_per_worker = "
        "{.cpus = 2}, or 0 for an equal share");
}
