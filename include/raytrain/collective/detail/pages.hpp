// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <limits>
#include <memory>
#include <new>

namespace raytrain::detail {

inline constexpr std::size_t huge_page_bytes = std::size_t{2} << 20U;

/// What an array of `size` elements takes.
///
/// Errors: `std::bad_alloc` when no `std::size_t` can hold it.
template <class T>
[[nodiscard]] constexpr auto array_bytes(std::size_t size) -> std::size_t {
  if (size > std::numeric_limits<std::size_t>::max() / sizeof(T)) throw std::bad_alloc{};
  return size * sizeof(T);
}

/// Memory of this process alone, zero, aligned as a cache line; from the size of a huge page on it asks for those, with
/// which a kernel that walks through several large arrays at once spends less time on translating addresses.
[[nodiscard]] inline auto allocate_pages(std::size_t bytes) -> std::shared_ptr<void> {
  if (bytes == 0) return nullptr;
  // As much more as it takes to begin where a huge page does.
  auto const slack = bytes >= huge_page_bytes ? huge_page_bytes : 0;
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
