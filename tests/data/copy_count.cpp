// SPDX-License-Identifier: Apache-2.0
// Apart from its users, since g++ knows what these functions do, and asks for the C library's where it sees them.
#include "copy_count.hpp"

#include <atomic>
#include <cstddef>
#include <limits>

namespace {
std::atomic<std::size_t> copied{0};
std::atomic<void const*> last{nullptr};
}  // namespace

auto copied_bytes() noexcept -> std::size_t { return copied; }
auto copied_to() noexcept -> void const* { return last; }

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

// glibc's own memmove by another name, of which g++ does not know that it is one.
extern "C" auto moved_by_glibc(void* to, void const* from, std::size_t bytes, std::size_t room) noexcept
    -> void* asm("__memmove_chk");

namespace {
auto count_and_move(void* to, void const* from, std::size_t bytes) noexcept -> void* {
  constexpr std::size_t least = 64;
  if (bytes >= least) {
    copied.fetch_add(bytes, std::memory_order_relaxed);
    last = to;
  }
  return moved_by_glibc(to, from, bytes, std::numeric_limits<std::size_t>::max());
}
}  // namespace

extern "C" auto memcpy(void* to, void const* from, std::size_t bytes) noexcept -> void* {
  return count_and_move(to, from, bytes);
}
extern "C" auto memmove(void* to, void const* from, std::size_t bytes) noexcept -> void* {
  return count_and_move(to, from, bytes);
}

#endif
