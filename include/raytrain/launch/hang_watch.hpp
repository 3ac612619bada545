// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <mutex>
#include <thread>

#include <raytrain/core/signs_of_life.hpp>
#include <raytrain/launch/worker_link.hpp>

namespace raytrain {

/// Judges one worker's silence by looks at its signs of life, of which each counts as `period`: a process that was not
/// scheduled for a while has looked less often, and so takes nobody for silent who was not scheduled either.
///
/// Threads: one.
class Silence {
 public:
  static constexpr std::chrono::milliseconds period{100};

  enum class Verdict : std::uint8_t {
    none,
    unusual,  ///< In its own work it is silent for 10 times as long as ever before, and for 0.8 s.
    held_up,  ///< It has been silent for `limit`, by raytrain's own doing: it saves or reports.
    over,     ///< It has been silent for `limit`; again after each tenth of it, and at least a second.
    ended,    ///< After `over` there is a sign of life.
  };

  /// `limit`: from when on silence is a failure, unless the worker saves or reports; 0: never.
  explicit Silence(std::chrono::milliseconds limit) noexcept
      : limit_{(std::min<std::chrono::milliseconds>(limit, SignsOfLife::longest) + period - shortest) / period} {}

  /// To be called every `period`.
  auto look(SignsOfLife const& signs, SignsOfLife::Clock::time_point now) noexcept -> Verdict;

  /// For how long it is silent.
  [[nodiscard]] auto length() const noexcept -> std::chrono::milliseconds { return silent_ * period; }

  /// What the worker did at the last look.
  [[nodiscard]] auto activity() const noexcept -> SignsOfLife::Activity { return activity_; }

  /// Whether there is a sign of life after the last look.
  [[nodiscard]] auto is_broken(SignsOfLife const& signs) const noexcept -> bool { return signs.beats() != beats_; }

 private:
  static constexpr std::chrono::milliseconds shortest{1};
  static constexpr std::uint32_t fewest_signs = 20;  // before anything is known of what is usual
  static constexpr std::int64_t fewest_looks = 8;
  static constexpr std::int64_t unusual_factor = 10;

  std::uint64_t beats_ = 0;
  SignsOfLife::Activity activity_{};
  // Numbers of looks:
  std::uint32_t signs_ = 0;  // that have found something new
  std::int64_t limit_;
  std::int64_t silent_ = 0;   // since then
  std::int64_t working_ = 0;  // of these in its own work
  std::int64_t longest_ = 0;  // of `working_` so far
};

/// Watches the workers of a process, on a thread of its own from the first of them on: a worker whose silence is
/// unusual says so in a warning, and one whose silence is over the limit sends `Silent`; both tell what its thread
/// does.
///
/// Threads: every function from any thread.
class HangWatch {
 public:
  /// `limit`: as `FailureConfig::hang_timeout`.
  explicit HangWatch(std::chrono::milliseconds limit) : limit_{limit} {}
  HangWatch(HangWatch const&) = delete;
  auto operator=(HangWatch const&) -> HangWatch& = delete;
  ~HangWatch();

  /// A worker is watched while this exists, made on its thread; once it is gone, nothing is sent in the worker's name.
  class Watched {
   public:
    Watched(HangWatch& watch, WorkerLink& link);
    Watched(Watched const&) = delete;
    auto operator=(Watched const&) -> Watched& = delete;
    ~Watched();

   private:
    struct Entry;
    friend class HangWatch;

    SignsOfLife::Owner owner_;
    HangWatch& watch_;
    std::list<Entry>::iterator entry_;
  };

 private:
  using Entry = Watched::Entry;

  void look_until_the_end();

  static void look_at(Entry& entry);

  std::chrono::milliseconds limit_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Entry> entries_;
  bool ending_ = false;
  std::thread thread_;
};

struct HangWatch::Watched::Entry {
  WorkerLink& link;
  Silence silence;
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/launch/hang_watch-inl.hpp>
#endif
