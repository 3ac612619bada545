// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <mutex>

#include <raytrain/core/fork_generation.hpp>
#include <raytrain/launch/process_end.hpp>

namespace raytrain::detail {

/// One for each `fit()` of this process. While one lives, exit() and quick_exit() end the process with a status that
/// does not say that all went well.
class ExitGuard {
 public:
  ExitGuard() {
    [[maybe_unused]] static int const registered = std::atexit(&refuse) + std::at_quick_exit(&refuse);
    generation_ = fork_generation();
    std::lock_guard const lock{mutex_};
    ++living_;
  }
  ExitGuard(ExitGuard const&) = delete;
  auto operator=(ExitGuard const&) -> ExitGuard& = delete;
  ~ExitGuard() { count_down(); }

  /// Ends this process on behalf of the `fit()` on this thread. Others, which may have been asked to end as well, first
  /// have a second to record how they end.
  [[noreturn]] static void end_process_beside_others() noexcept {
    count_down();
    std::unique_lock lock{mutex_};
    changed_.wait_for(lock, std::chrono::seconds{1}, [] { return living_ == 0; });
    end_process();
  }

 private:
  static void count_down() noexcept {
    std::lock_guard const lock{mutex_};
    --living_;
    changed_.notify_all();
  }

  static void refuse() noexcept {
    if (living_ == 0 || generation_ != fork_generation()) return;
    say_last_word(
        "raytrain: the program called exit() before fit() had returned: return from the training function or "
        "the callback, or throw; this process ends with exit status 75, start it again to go on with what is left to "
        "do\n");
    end_process();
  }

  static inline std::mutex mutex_;
  static inline std::condition_variable changed_;
  static inline std::atomic<int> living_ = 0;  // changed under the mutex
  static inline std::atomic<std::uint32_t> generation_ = 0;
};

}  // namespace raytrain::detail
