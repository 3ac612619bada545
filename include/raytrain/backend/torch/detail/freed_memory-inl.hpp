// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <malloc.h>

#include <limits>

#include <raytrain/backend/torch/detail/freed_memory.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain::detail {

RAYTRAIN_TORCH_INLINE void keep_freed_memory() noexcept {
#if defined(__GLIBC__)
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  mallopt(M_TOP_PAD,
          64 << 20);  // a thread's heap of 64 MiB is unmapped, once it is empty, unless this asks for another
#endif
}

}  // namespace raytrain::detail
