// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dlfcn.h>
#include <link.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <raytrain/collective/detail/argument_checks.hpp>
#include <raytrain/collective/detail/task.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE auto DeviceMemoryQuery::is_on_device(std::span<std::byte const> array) noexcept -> bool {
  if (array.data() == nullptr) return false;
  if (attribute_of_ == nullptr) {
    if (array.size() > small_bytes || small_arrays_++ % small_arrays_per_look == 0) look_for_driver();
    if (attribute_of_ == nullptr) return false;
  }
  unsigned kind = 0;
  unsigned is_managed = 0;
  auto const pointer = reinterpret_cast<std::uintptr_t>(array.data());
  // For memory that CUDA does not know the first query returns an error.
  if (attribute_of_(&kind, memory_type, pointer) != 0 || kind != device) return false;
  return attribute_of_(&is_managed, managed, pointer) != 0 || is_managed == 0;
}

RAYTRAIN_INLINE void DeviceMemoryQuery::look_for_driver() noexcept {
  // dlopen searches folders for 40 us for a library that is not loaded: only where others have been loaded since.
  auto libraries = libraries_;
  auto const take_count = [](::dl_phdr_info* info, std::size_t, void* result) {
    *static_cast<unsigned long long*>(result) = info->dlpi_adds;
    return 1;
  };
  (void)::dl_iterate_phdr(take_count, &libraries);
  if (libraries == libraries_) return;
  libraries_ = libraries;
  auto* const library = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return;
  attribute_of_ = reinterpret_cast<AttributeOf>(::dlsym(library, "cuPointerGetAttribute"));
}

RAYTRAIN_INLINE void ArgumentChecks::check_root(Rank root) const {
  if (root.value < size_.value) return;
  throw Error{Errc::invalid_call, attempted(),
              "root must be below " + std::to_string(size_.value) + " (got " + std::to_string(root.value) + ")"};
}

RAYTRAIN_INLINE void ArgumentChecks::refuse_device_memory(char const* name) const {
  throw Error{Errc::invalid_call, attempted(), std::string{name} + " must be in CPU memory (got memory of a GPU)",
              "copy it to CPU memory, or use NcclCollective or DeviceCollective"};
}

RAYTRAIN_INLINE auto ArgumentChecks::attempted() const -> std::string {
  return to_string(call_) + " on rank " + std::to_string(rank_.value);
}

}  // namespace raytrain::detail
