// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <linux/futex.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <ctime>

namespace raytrain::detail {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));

/// Sleeps until `wake_all`, at most for `time`, unless `word` has another value by now; may return early. Unlike
/// `std::atomic::wait`, it ends in time, and the word may be in memory that several processes share.
void sleep_while(std::atomic<std::uint32_t>& word, std::uint32_t value, std::chrono::nanoseconds time) noexcept;

void wake_all(std::atomic<std::uint32_t>& word) noexcept;

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/collective/detail/futex-inl.hpp>
#endif
