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

namespace raytrain::detail {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));

/// Sleeps until `wake_all`, at most for `time`, unless `word` has another value by now; may return early. Unlike
/// `std::atomic::wait`, it ends in time, and the word may be in memory that several processes share.
inline void sleep_while(std::atomic<std::uint32_t>& word, std::uint32_t value, std::chrono::nanoseconds time) noexcept {
  auto const seconds = std::chrono::floor<std::chrono::seconds>(time);
  timespec const timeout{static_cast<std::time_t>(seconds.count()), static_cast<long>((time - seconds).count())};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, value, &timeout, nullptr, 0);
}

inline void wake_all(std::atomic<std::uint32_t>& word) noexcept {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, std::numeric_limits<int>::max(), nullptr, nullptr, 0);
}

}  // namespace raytrain::detail
