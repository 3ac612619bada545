// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

namespace raytrain {

/// Time as a run sees it. Tests put `testing::ManualClock` in its place.
///
/// Threads: every function from any thread.
class Clock {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::steady_clock::duration;
  using WallTime = std::chrono::system_clock::time_point;

  Clock() = default;
  Clock(Clock const&) = delete;
  auto operator=(Clock const&) -> Clock& = delete;
  virtual ~Clock() = default;

  /// Never goes back; for durations and deadlines.
  [[nodiscard]] virtual auto now() const noexcept -> TimePoint = 0;
  /// `duration` from now, but at most a year: a sum beyond what the clock can count would lie in the past.
  [[nodiscard]] auto after(std::chrono::milliseconds duration) const noexcept -> TimePoint;
  /// The time of day; may jump. For timestamps only.
  [[nodiscard]] virtual auto wall_now() const noexcept -> WallTime = 0;
};

/// The operating system's clocks.
class SystemClock final : public Clock {
 public:
  [[nodiscard]] auto now() const noexcept -> TimePoint override { return std::chrono::steady_clock::now(); }
  [[nodiscard]] auto wall_now() const noexcept -> WallTime override { return std::chrono::system_clock::now(); }
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/core/clock-inl.hpp>
#endif
