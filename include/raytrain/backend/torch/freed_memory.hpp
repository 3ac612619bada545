// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>

#if defined(__GLIBC__)
#include <malloc.h>

#include <limits>
#endif

namespace raytrain::detail {

/// From now on freed memory stays with the process instead of going back to the system. glibc only.
///
/// By default every freed block above 128 KiB may be unmapped; mapped again it costs a page fault per 4 KiB.
inline void keep_freed_memory() noexcept {
#if defined(__GLIBC__)
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  mallopt(M_TOP_PAD,
          64 << 20);  // a thread's heap of 64 MiB is unmapped, once it is empty, unless this asks for another
#endif
}

}  // namespace raytrain::detail
