// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>

namespace raytrain::detail {

/// Another number in a process that was forked since, without exec. What was made under another one is the parent's:
/// the child has a copy of it, and none of its threads.
///
/// Threads: any.
[[nodiscard]] inline auto fork_generation() noexcept -> std::uint32_t {
  static std::atomic<std::uint32_t> generation = 0;
  [[maybe_unused]] static int const registered = pthread_atfork(nullptr, nullptr, [] { ++generation; });
  return generation.load(std::memory_order_relaxed);
}

}  // namespace raytrain::detail
