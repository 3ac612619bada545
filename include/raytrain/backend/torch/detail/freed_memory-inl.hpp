// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <string_view>

#include <raytrain/backend/torch/detail/freed_memory.hpp>
#include <raytrain/core/inline.hpp>

#if defined(__GLIBC__)  // which any header of the standard library tells
#include <malloc.h>
#endif

namespace raytrain::detail {

#if defined(__GLIBC__)

struct FreedMemoryUsers {
  std::mutex mutex;
  int count = 0;
};

RAYTRAIN_TORCH_INLINE auto freed_memory_users() -> FreedMemoryUsers& {
  static FreedMemoryUsers users;
  return users;
}

RAYTRAIN_TORCH_INLINE auto environment_settles_malloc() noexcept -> bool {
  constexpr std::array names{"MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_"};
  if (std::ranges::any_of(names, [](char const* name) { return std::getenv(name) != nullptr; })) return true;
  auto const* const tunables = std::getenv("GLIBC_TUNABLES");
  return tunables != nullptr && std::string_view{tunables}.find("glibc.malloc.") != std::string_view::npos;
}

RAYTRAIN_TORCH_INLINE FreedMemoryStays::FreedMemoryStays() noexcept {
  auto& users = freed_memory_users();
  std::lock_guard const lock{users.mutex};
  if (users.count++ > 0 || environment_settles_malloc()) return;
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  mallopt(M_TOP_PAD,
          64 << 20);  // a thread's heap of 64 MiB is unmapped, once it is empty, unless this asks for another
}

RAYTRAIN_TORCH_INLINE FreedMemoryStays::~FreedMemoryStays() {
  auto& users = freed_memory_users();
  std::lock_guard const lock{users.mutex};
  if (--users.count > 0 || environment_settles_malloc()) return;
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 64 << 20);
  mallopt(M_TOP_PAD, 128 << 10);
}

#else

RAYTRAIN_TORCH_INLINE FreedMemoryStays::FreedMemoryStays() noexcept = default;
RAYTRAIN_TORCH_INLINE FreedMemoryStays::~FreedMemoryStays() = default;

#endif

}  // namespace raytrain::detail
