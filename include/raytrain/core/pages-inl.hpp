// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <limits>
#include <memory>
#include <new>

#include <raytrain/core/inline.hpp>
#include <raytrain/core/pages.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE auto allocate_pages(std::size_t bytes) -> std::shared_ptr<void> {
  if (bytes == 0) return nullptr;
  // As much more as it takes to begin where a huge page does.
  auto const slack = bytes >= huge_page_bytes ? huge_page_bytes : 0;
  if (bytes > std::numeric_limits<std::size_t>::max() - slack) throw std::bad_alloc{};
  auto* const mapping = ::mmap(nullptr, bytes + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) throw std::bad_alloc{};
  std::shared_ptr<void> const whole{mapping, [size = bytes + slack](void* memory) { ::munmap(memory, size); }};
  if (slack == 0) return whole;
  auto space = bytes + slack;
  auto* aligned = mapping;
  std::align(huge_page_bytes, bytes, aligned, space);
  (void)::madvise(aligned, bytes, MADV_HUGEPAGE);  // a wish
  return {whole, aligned};
}

}  // namespace raytrain::detail
