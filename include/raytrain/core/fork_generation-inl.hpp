// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>

#include <raytrain/core/fork_generation.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE auto fork_generation() noexcept -> std::uint32_t {
  static std::atomic<std::uint32_t> generation = 0;
  [[maybe_unused]] static int const registered = pthread_atfork(nullptr, nullptr, [] { ++generation; });
  return generation.load(std::memory_order_relaxed);
}

}  // namespace raytrain::detail
