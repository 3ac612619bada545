// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace raytrain::detail {

/// What a rank does between two looks at something pending: nothing at first, then it gives its core away, then it
/// sleeps. MPI goes on with a transfer only while somebody looks, so the more bytes, the later both.
class Backoff {
 public:
  explicit Backoff(bool has_core = true, std::size_t bytes = 0) noexcept
      : looks_a_turn_{has_core ? 64U : 4U},
        keep_core_time_{has_core ? std::chrono::microseconds{50} + std::chrono::nanoseconds{bytes}
                                 : std::chrono::nanoseconds{0}},
        awake_time_{std::chrono::milliseconds{2} + std::chrono::nanoseconds{bytes * 10}} {}

  /// Returns for how long it has waited; 0 as long as that is not worth a look at the clock.
  auto pause() -> std::chrono::nanoseconds;

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds long_time{1};

  std::uint32_t looks_ = 0;
  std::uint32_t looks_a_turn_;
  std::chrono::nanoseconds keep_core_time_;
  std::chrono::nanoseconds awake_time_;
  Clock::time_point begin_{};
  std::chrono::nanoseconds waited_{0};
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/collective/detail/backoff-inl.hpp>
#endif
