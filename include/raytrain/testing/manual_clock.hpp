// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include <raytrain/core/clock.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/exec/executor.hpp>

namespace raytrain::testing {

/// A clock that stands still until a test moves it. Timers of an executor that goes by it end on that executor's
/// thread.
///
/// Threads: every function from any thread.
class ManualClock final : public detail::AlarmClock {
 public:
  /// Starts an hour after the clock's epoch, so that tests may speak of times before.
  [[nodiscard]] auto now() const noexcept -> TimePoint override {
    std::lock_guard const lock{mutex_};
    return now_;
  }
  /// Moves with `now`, from 1970 on.
  [[nodiscard]] auto wall_now() const noexcept -> WallTime override {
    return WallTime{std::chrono::duration_cast<WallTime::duration>(now().time_since_epoch())};
  }

  /// Errors: `invalid_call` for a negative duration.
  void advance(Duration duration) {
    if (duration < Duration::zero()) {
      throw Error{Errc::invalid_call, "ManualClock::advance", "the duration is negative", "a clock never goes back"};
    }
    std::lock_guard const lock{mutex_};
    now_ += duration;
    while (!alarms_.empty() && alarms_.begin()->first.first <= now_) {
      // Rings under the lock: when drop_alarm returns, its alarm is not ringing.
      auto const alarm = alarms_.extract(alarms_.begin());
      alarm.mapped()();
    }
  }

  /// The earliest time that a timer waits for.
  [[nodiscard]] auto next_alarm() const -> std::optional<TimePoint> {
    std::lock_guard const lock{mutex_};
    if (alarms_.empty()) return std::nullopt;
    return alarms_.begin()->first.first;
  }

  /// Blocks until some timer waits; for a thread that then moves the clock.
  [[nodiscard]] auto wait_for_alarm() -> TimePoint {
    std::unique_lock lock{mutex_};
    alarm_set_.wait(lock, [this] { return !alarms_.empty(); });
    return alarms_.begin()->first.first;
  }

  [[nodiscard]] auto set_alarm(TimePoint time, std::function<void()> ring) -> std::uint64_t override {
    std::lock_guard const lock{mutex_};
    auto const alarm = ++last_alarm_;
    if (time <= now_) {
      ring();
    } else {
      alarms_.emplace(std::pair{time, alarm}, std::move(ring));
      alarm_set_.notify_all();
    }
    return alarm;
  }

  void drop_alarm(std::uint64_t alarm) noexcept override {
    std::lock_guard const lock{mutex_};
    std::erase_if(alarms_, [alarm](auto const& entry) { return entry.first.second == alarm; });
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable alarm_set_;
  TimePoint now_{std::chrono::hours{1}};
  std::map<std::pair<TimePoint, std::uint64_t>, std::function<void()>> alarms_;  ///< By time, then by age.
  std::uint64_t last_alarm_ = 0;
};

}  // namespace raytrain::testing
