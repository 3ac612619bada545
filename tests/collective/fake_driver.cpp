// SPDX-License-Identifier: Apache-2.0
// Stands in for CUDA's driver, libcuda.so.1, where it is asked which GPUs there are, and for a GPU's memory. There are
// RAYTRAIN_TEST_GPUS of them, and it supports CUDA 11.4 or what RAYTRAIN_TEST_DRIVER_CUDA says, as 12040. Arrays in its
// memory are those whose first number is one of these. It sets RAYTRAIN_TEST_DRIVER_STARTED when it is started.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace {

auto number_in(char const* variable, int otherwise) -> int {
  auto const* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::atoi(text);
}

auto gpus() -> int {
  auto const* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return visible != nullptr && *visible == '\0' ? 0 : number_in("RAYTRAIN_TEST_GPUS", 0);
}

}  // namespace

extern "C" {

auto cuInit(unsigned /*flags*/) -> int {
  ::setenv("RAYTRAIN_TEST_DRIVER_STARTED", "1", 1);
  return gpus() == 0 ? 100 : 0;
}

auto cuDriverGetVersion(int* version) -> int {
  *version = number_in("RAYTRAIN_TEST_DRIVER_CUDA", 11040);
  return 0;
}

auto cuDeviceGetCount(int* count) -> int {
  *count = gpus();
  return 0;
}

auto cuDeviceGet(int* device, int ordinal) -> int {
  *device = ordinal;
  return 0;
}

auto cuDeviceGetName(char* name, int length, int /*device*/) -> int {
  constexpr std::string_view fake{"Fake GPU"};
  *std::copy_n(fake.begin(), std::min(fake.size(), static_cast<std::size_t>(length)), name) = '\0';
  return 0;
}

auto cuDeviceTotalMem_v2(std::size_t* bytes, int /*device*/) -> int {
  *bytes = std::size_t{8} << 30U;
  return 0;
}

auto cuMemGetInfo_v2(std::size_t* free_bytes, std::size_t* total_bytes) -> int {
  *free_bytes = std::size_t{1} << 29U;
  *total_bytes = std::size_t{8} << 30U;
  return 0;
}

auto cuPointerGetAttribute(void* result, int attribute, std::uintptr_t pointer) -> int {
  constexpr int memory_type = 2;
  constexpr int is_managed = 8;
  constexpr float on_device = 1234.5F;
  constexpr float managed = 1235.5F;
  auto const first = *reinterpret_cast<float const*>(pointer);
  auto* const answer = static_cast<unsigned*>(result);
  if (first != on_device && first != managed) return 1;
  if (attribute == memory_type) *answer = 2;
  if (attribute == is_managed) *answer = first == managed ? 1 : 0;
  return 0;
}

}  // extern "C"
