// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <signal.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include <raytrain/exec/signals.hpp>

namespace raytrain::detail {

/// How often somebody has asked for a stop, from the signals that came.
///
/// A signal within a second of a request belongs to it: Slurm sends each process two SIGTERM, itself and through srun,
/// and a shell and the kernel one SIGHUP each. Only a SIGINT counts when the request has had a SIGINT already:
/// somebody presses Ctrl-C again.
class StopCounter {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::seconds echo{1};

  /// The number of the request that `signal` makes at `now`, from 1; 0 when it belongs to the last one.
  [[nodiscard]] auto count(int signal, TimePoint now) -> std::uint32_t;

 private:
  std::uint32_t times_ = 0;
  bool request_has_sigint_ = false;
  TimePoint settled_{};
};

/// Calls `on_request(1)` at the first request to stop (SIGINT, SIGTERM, SIGHUP) and `on_request(2)` at the second one.
///
/// If it still lives 2 s after the second one, whoever should have ended the run cannot: it says so and ends the
/// process. A third request finds the handlers from before. A signal that the program ignores, as nohup has it, stays
/// ignored.
///
/// Threads: calls on a thread of its own, since a callback or a file system may keep every other one.
class StopSignals {
 public:
  static constexpr std::chrono::seconds forced_exit_delay{2};

  /// `what` is asked to stop: a name for the last word.
  StopSignals(std::string what, std::function<void(std::uint32_t)> on_request)
      : what_{std::move(what)},
        on_request_{std::move(on_request)},
        watcher_{SignalWatcher::heeded({SIGINT, SIGTERM, SIGHUP})},
        thread_{[this]() noexcept { watch(); }} {}
  StopSignals(StopSignals const&) = delete;
  auto operator=(StopSignals const&) -> StopSignals& = delete;
  ~StopSignals();

  /// A request has come to this process, or to another one of its job. What all of them are sent may reach this one
  /// only when the run has ended by it: for `StopCounter::echo` SIGTERM and SIGHUP then have no effect.
  static void drop_echoes();

 private:
  void watch();

  std::string what_;
  std::function<void(std::uint32_t)> on_request_;
  SignalWatcher watcher_;
  std::thread thread_;  ///< Last: it uses everything above.
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/train/detail/stop_signals-inl.hpp>
#endif
