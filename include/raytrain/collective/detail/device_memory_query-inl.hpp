// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dlfcn.h>

#include <cstdint>

#include <raytrain/collective/detail/device_memory_query.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE auto DeviceMemoryQuery::is_on_device(void const* address) noexcept -> bool {
  if (!has_looked_) look_for_driver();
  if (attribute_of_ == nullptr || address == nullptr) return false;
  unsigned kind = 0;
  unsigned is_managed = 0;
  auto const pointer = reinterpret_cast<std::uintptr_t>(address);
  // For memory that CUDA does not know the first query returns an error.
  if (attribute_of_(&kind, memory_type, pointer) != 0 || kind != device) return false;
  return attribute_of_(&is_managed, managed, pointer) != 0 || is_managed == 0;
}

RAYTRAIN_INLINE void DeviceMemoryQuery::look_for_driver() noexcept {
  has_looked_ = true;
  auto* const library = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return;
  attribute_of_ = reinterpret_cast<AttributeOf>(::dlsym(library, "cuPointerGetAttribute"));
}

}  // namespace raytrain::detail
