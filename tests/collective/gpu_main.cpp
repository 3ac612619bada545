// SPDX-License-Identifier: Apache-2.0
// The main function of tests that need a GPU: without one it says why none of them runs, and ends as a skipped test.
#define DOCTEST_CONFIG_IMPLEMENT
#include <cuda_runtime_api.h>

#include <cstdio>

#include <doctest/doctest.h>

auto main(int argc, char** argv) -> int {
  constexpr int skipped = 77;
  int devices = 0;
  if (auto const result = cudaGetDeviceCount(&devices); result != cudaSuccess || devices == 0) {
    std::printf("skipped: these tests need an NVIDIA GPU, and CUDA finds none: %s (%s)\n", cudaGetErrorName(result),
                cudaGetErrorString(result));
    return skipped;
  }
  return doctest::Context{argc, argv}.run();
}
