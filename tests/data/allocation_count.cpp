// SPDX-License-Identifier: Apache-2.0
// Apart from its users: where g++ sees both these functions and a call of one, it warns of mismatches that are none.
#include "allocation_count.hpp"

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<std::size_t> allocations{0};
std::atomic<std::size_t> held_bytes{0};
std::atomic<std::size_t> peak_bytes{0};
}  // namespace

auto allocation_count() noexcept -> std::size_t { return allocations; }
auto allocated_bytes() noexcept -> std::size_t { return held_bytes; }
auto peak_allocated_bytes() noexcept -> std::size_t { return peak_bytes; }
void forget_peak() noexcept { peak_bytes = held_bytes.load(); }

// The nothrow forms too: under AddressSanitizer they would stay its own, and what they allocate would be freed here
// (std::stable_sort allocates and frees so).
auto operator new(std::size_t size, std::nothrow_t const&) noexcept -> void* {
  ++allocations;
  auto* const memory = std::malloc(size != 0 ? size : 1);
  if (memory == nullptr) return nullptr;
  auto const held = held_bytes += ::malloc_usable_size(memory);
  for (auto peak = peak_bytes.load(); peak < held && !peak_bytes.compare_exchange_weak(peak, held);) {
  }
  return memory;
}
auto operator new(std::size_t size) -> void* {
  if (auto* const memory = operator new(size, std::nothrow); memory != nullptr) return memory;
  throw std::bad_alloc{};
}
void operator delete(void* memory) noexcept {
  held_bytes -= ::malloc_usable_size(memory);
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept { operator delete(memory); }
void operator delete(void* memory, std::nothrow_t const&) noexcept { operator delete(memory); }
