// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dlfcn.h>

#include <cstdint>

namespace raytrain::detail {

/// Tells memory of a GPU from memory of the host, which no address shows. It asks CUDA's driver, if this program uses
/// it by the time of the first question; otherwise there is none of that memory.
class DeviceMemoryQuery {
 public:
  [[nodiscard]] auto is_on_device(void const* address) noexcept -> bool {
    if (!has_looked_) look_for_driver();
    if (attribute_of_ == nullptr || address == nullptr) return false;
    unsigned kind = 0;
    unsigned is_managed = 0;
    auto const pointer = reinterpret_cast<std::uintptr_t>(address);
    // For memory that CUDA does not know the first query returns an error.
    if (attribute_of_(&kind, memory_type, pointer) != 0 || kind != device) return false;
    return attribute_of_(&is_managed, managed, pointer) != 0 || is_managed == 0;
  }

 private:
  // cuPointerGetAttribute, and of its CUpointer_attribute and CUmemorytype those that matter: CUDA Driver API.
  using AttributeOf = int (*)(void* result, int attribute, std::uintptr_t pointer);
  static constexpr int memory_type = 2;
  static constexpr int managed = 8;
  static constexpr unsigned device = 2;

  void look_for_driver() noexcept {
    has_looked_ = true;
    auto* const library = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (library == nullptr) return;
    attribute_of_ = reinterpret_cast<AttributeOf>(::dlsym(library, "cuPointerGetAttribute"));
  }

  bool has_looked_ = false;
  AttributeOf attribute_of_ = nullptr;
};

}  // namespace raytrain::detail
