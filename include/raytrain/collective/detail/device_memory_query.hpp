// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace raytrain::detail {

/// Tells memory of a GPU from memory of the host, which no address shows. It asks CUDA's driver, if this program uses
/// it by the time of the first question; otherwise there is none of that memory.
class DeviceMemoryQuery {
 public:
  [[nodiscard]] auto is_on_device(void const* address) noexcept -> bool;

 private:
  // cuPointerGetAttribute, and of its CUpointer_attribute and CUmemorytype those that matter: CUDA Driver API.
  using AttributeOf = int (*)(void* result, int attribute, std::uintptr_t pointer);
  static constexpr int memory_type = 2;
  static constexpr int managed = 8;
  static constexpr unsigned device = 2;

  void look_for_driver() noexcept;

  bool has_looked_ = false;
  AttributeOf attribute_of_ = nullptr;
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/collective/detail/device_memory_query-inl.hpp>
#endif
