// SPDX-License-Identifier: Apache-2.0
// Apart from its users: where g++ sees both these functions and a call of one, it warns of mismatches that are none.
#include "allocation_count.hpp"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<std::size_t> allocations{0};
}

auto allocation_count() noexcept -> std::size_t { return allocations; }

auto operator new(std::size_t size) -> void* {
  ++allocations;
  if (auto* const memory = std::malloc(size != 0 ? size : 1)) return memory;
  throw std::bad_alloc{};
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
