// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <limits>

#include <raytrain/collective/detail/futex.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE void sleep_while(std::atomic<std::uint32_t>& word, std::uint32_t value,
                                 std::chrono::nanoseconds time) noexcept {
  auto const seconds = std::chrono::floor<std::chrono::seconds>(time);
  timespec const timeout{static_cast<std::time_t>(seconds.count()), static_cast<long>((time - seconds).count())};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, value, &timeout, nullptr, 0);
}

RAYTRAIN_INLINE void wake_all(std::atomic<std::uint32_t>& word) noexcept {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, std::numeric_limits<int>::max(), nullptr, nullptr, 0);
}

}  // namespace raytrain::detail
