// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <thread>

#include <raytrain/collective/detail/backoff.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE auto Backoff::pause() -> std::chrono::nanoseconds {
  if (++looks_ % looks_a_turn_ != 0 && waited_ <= awake_time_) [[likely]]
    return waited_;
  auto const now = Clock::now();
  if (begin_ == Clock::time_point{}) begin_ = now - std::chrono::nanoseconds{1};
  waited_ = now - begin_;
  if (waited_ > awake_time_) {
    // The system adds 50 us to both.
    std::this_thread::sleep_for(waited_ < awake_time_ + long_time ? std::chrono::microseconds{20}
                                                                  : std::chrono::microseconds{1000});
  } else if (waited_ >= keep_core_time_) {
    std::this_thread::yield();
  }
  return waited_;
}

}  // namespace raytrain::detail
