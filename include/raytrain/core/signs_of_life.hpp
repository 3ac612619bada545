// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

namespace raytrain {

/// What one worker shows to whoever watches whether it goes on: that it has done something, what it does, and until
/// when it may be silent.
///
/// A worker's thread has signs of life of its own (`Owner`), so that collectives and datasets find them without being
/// told; on any other thread what is noted here is lost.
///
/// Threads: every function from any thread; `Owner` and `During` on the worker's.
class SignsOfLife {
 public:
  using Clock = std::chrono::steady_clock;

  enum class Activity : std::uint8_t {
    own_work,  ///< What the training function does.
    waits,     ///< For other workers, in a collective.
    saves,     ///< A part of a checkpoint, or waits until one before is written or committed.
    fills,     ///< Its own function puts the state into a checkpoint.
    reports,   ///< It waits until the controller takes what it says; not part of `time_away`.
  };

  /// The worker goes on. Cost: two memory accesses; of two threads that call it at once one may be lost.
  void beat() noexcept { beats_.store(beats() + 1, std::memory_order_relaxed); }

  /// The same for the worker of the calling thread, if it is one's.
  static void beat_here() noexcept {
    if (here_ != nullptr) here_->beat();
  }

  [[nodiscard]] auto beats() const noexcept -> std::uint64_t { return beats_.load(std::memory_order_relaxed); }

  /// The longest silence that can be announced, or allowed by a limit.
  static constexpr std::chrono::hours longest{24 * 365};

  /// Announces that the worker may show no sign of life for `time` from `now` on, so that nobody takes its silence for
  /// a hang. A `time` above `longest` counts as `longest`.
  void expect_silence(std::chrono::milliseconds time, Clock::time_point now) noexcept {
    silent_until_ = (now + std::min<std::chrono::milliseconds>(time, longest)).time_since_epoch().count();
  }
  [[nodiscard]] auto expects_silence(Clock::time_point now) const noexcept -> bool {
    return now.time_since_epoch().count() < silent_until_;
  }

  [[nodiscard]] auto activity() const noexcept -> Activity { return activity_; }

  /// Total time in which it did something else than its own work; waits of some microseconds do not count.
  [[nodiscard]] auto time_away() const noexcept -> std::chrono::nanoseconds {
    return std::chrono::nanoseconds{away_ns_};
  }

  /// The system's number of the worker's thread; 0 before it has one.
  [[nodiscard]] auto thread() const noexcept -> pid_t { return thread_; }

  /// Makes them those of the calling thread while this exists.
  class Owner {
   public:
    explicit Owner(SignsOfLife& signs) noexcept;
    Owner(Owner const&) = delete;
    auto operator=(Owner const&) -> Owner& = delete;
    ~Owner() { here_ = nullptr; }
  };

  /// Says what the worker of the calling thread does while this exists.
  class During {
   public:
    explicit During(Activity activity) noexcept;
    During(During const&) = delete;
    auto operator=(During const&) -> During& = delete;
    ~During();

   private:
    SignsOfLife* signs_;
    Activity before_{};
    Clock::time_point began_{};
  };

 private:
  inline static constinit thread_local SignsOfLife* here_ = nullptr;

  std::atomic<std::uint64_t> beats_{0};
  std::atomic<Clock::rep> silent_until_{Clock::time_point::min().time_since_epoch().count()};
  std::atomic<Activity> activity_{Activity::own_work};
  std::atomic<std::int64_t> away_ns_{0};
  std::atomic<pid_t> thread_{0};
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/core/signs_of_life-inl.hpp>
#endif
