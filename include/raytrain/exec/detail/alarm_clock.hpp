// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

#include <raytrain/core/clock.hpp>

namespace raytrain::detail {

/// A clock that moves only when somebody moves it, and therefore has to say itself when a time is reached.
///
/// Threads: every function from any thread.
class AlarmClock : public Clock {
 public:
  /// Calls `ring` once: when the clock is moved to `time` or beyond, on the thread that moves it, or at once if it is
  /// there already. `ring` must not call this clock.
  [[nodiscard]] virtual auto set_alarm(TimePoint time, std::function<void()> ring) -> std::uint64_t = 0;

  /// Afterwards that alarm does not ring and is not ringing.
  virtual void drop_alarm(std::uint64_t alarm) noexcept = 0;
};

}  // namespace raytrain::detail
