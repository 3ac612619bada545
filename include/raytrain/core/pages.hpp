// SPDX-License-Identifier: Apache-2.0
#pragma once

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

/// Memory of this process alone, zero, aligned as a cache line; from the size of a huge page on it asks for those,
/// which take less time to get, and with which a kernel that walks through several large arrays at once spends less on
/// translating addresses.
[[nodiscard]] auto allocate_pages(std::size_t bytes) -> std::shared_ptr<void>;

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/core/pages-inl.hpp>
#endif
