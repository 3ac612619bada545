// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <string_view>

namespace raytrain::detail {

/// Exit status of a process whose training is not finished; the next start goes on with it (EX_TEMPFAIL of sysexits.h).
inline constexpr int unfinished_exit_code = 75;

/// Whether up to 4 KiB can be written without waiting, now or within 100 ms: a pipe may be full, and nobody read it.
[[nodiscard]] auto takes_writing(int file) noexcept -> bool;

/// Writes what the program has printed, unless that would wait for a reader, or for a thread that does not return and
/// is in the middle of it.
void flush_unless_locked(std::FILE* stream) noexcept;

/// Writes to stderr what nobody else can say, mostly of a process that will end itself. It gives up where a reader
/// keeps it waiting for 100 ms.
void write_stderr(std::string_view text) noexcept;

/// Writes what the program has left in `std::cout`, `std::clog` and open files of stdio, for `end_process`, and gives
/// up after `limit`: another thread may be in the middle of a write that nobody reads. Where the program has called
/// `std::ios::sync_with_stdio(false)`, its threads are done with both streams.
void flush_files(std::chrono::milliseconds limit) noexcept;

/// Ends this process, whatever its other threads do: no destructors, no handlers.
[[noreturn]] void end_process(int status = unfinished_exit_code) noexcept;

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
#include <raytrain/launch/process_end-inl.hpp>
#endif
