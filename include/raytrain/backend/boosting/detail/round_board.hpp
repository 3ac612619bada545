// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <utility>
#include <vector>

#include <raytrain/core/metrics.hpp>

namespace raytrain::detail {

/// Passes rounds from the one worker that boosts to those of its process that stand by, so that all report the same.
///
/// Threads: `publish` and `end` from the worker that boosts, `wait` from the others.
class RoundBoard {
 public:
  struct Round {
    Metrics metrics;
    bool has_checkpoint = false;
  };

  /// Wakes the waiting workers only for a checkpoint, which needs all of them: otherwise they would take time from the
  /// one that boosts.
  void publish(Round round) {
    auto const wake = round.has_checkpoint;
    {
      std::lock_guard const lock{mutex_};
      rounds_.push_back(std::move(round));
      if (wake) ready_ = rounds_.size();
    }
    if (wake) changed_.notify_all();
  }

  /// Says that no round follows. `complete`: all rounds were trained; false: a stop or a failure came before.
  void end(bool complete) {
    {
      std::lock_guard const lock{mutex_};
      ready_ = rounds_.size();
      ended_ = true;
      complete_ = complete;
    }
    changed_.notify_all();
  }

  /// Waits for the rounds after `from`; none at the end.
  [[nodiscard]] auto wait(std::size_t from) -> std::vector<Round> {
    std::unique_lock lock{mutex_};
    changed_.wait(lock, [&] { return ready_ > from || ended_; });
    return {rounds_.begin() + static_cast<std::ptrdiff_t>(from), rounds_.begin() + static_cast<std::ptrdiff_t>(ready_)};
  }

  /// Only after the end.
  [[nodiscard]] auto is_complete() -> bool {
    std::lock_guard const lock{mutex_};
    return complete_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Round> rounds_;
  std::size_t ready_ = 0;
  bool ended_ = false;
  bool complete_ = false;
};

}  // namespace raytrain::detail
