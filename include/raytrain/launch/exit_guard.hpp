// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace raytrain::detail {

/// One for each `fit()` of this process. While one lives, exit() and quick_exit() end the process with a status that
/// does not say that all went well.
class ExitGuard {
 public:
  ExitGuard();
  ExitGuard(ExitGuard const&) = delete;
  auto operator=(ExitGuard const&) -> ExitGuard& = delete;
  ~ExitGuard() { count_down(); }

  /// Ends this process on behalf of the `fit()` on this thread. Others, which may have been asked to end as well, first
  /// have a second to record how they end.
  [[noreturn]] static void end_process_beside_others() noexcept;

 private:
  static void count_down() noexcept;

  static void refuse() noexcept;

  static inline std::mutex mutex_;
  static inline std::condition_variable changed_;
  static inline std::atomic<int> living_ = 0;  // changed under the mutex
  static inline std::atomic<std::uint32_t> generation_ = 0;
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/launch/exit_guard-inl.hpp>
#endif
