// SPDX-License-Identifier: Apache-2.0
// Stands in for CUDA's driver, libcuda.so.1, where only a GPU's memory is asked for. Arrays in it are those whose first
// number is one of these.
#include <cstdint>

extern "C" auto cuPointerGetAttribute(void* result, int attribute, std::uintptr_t pointer) -> int {
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
