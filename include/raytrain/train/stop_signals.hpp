// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <signal.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <raytrain/exec/signals.hpp>
#include <raytrain/launch/process_end.hpp>

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
  [[nodiscard]] auto count(int signal, TimePoint now) -> std::uint32_t {
    auto const pressed_again = signal == SIGINT && request_has_sigint_;
    if (times_ > 0 && now < settled_ && !pressed_again) {
      request_has_sigint_ = request_has_sigint_ || signal == SIGINT;
      return 0;
    }
    request_has_sigint_ = signal == SIGINT;
    settled_ = now + echo;
    return ++times_;
  }

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
  static constexpr std::chrono::seconds patience{2};

  /// `what` is asked to stop: a name for the last word.
  StopSignals(std::string what, std::function<void(std::uint32_t)> on_request)
      : what_{std::move(what)}, on_request_{std::move(on_request)}, watcher_{heeded()}, thread_{[this]() noexcept {
          watch();
        }} {}
  StopSignals(StopSignals const&) = delete;
  auto operator=(StopSignals const&) -> StopSignals& = delete;
  ~StopSignals() {
    watcher_.close();
    thread_.join();
  }

 private:
  static constexpr std::array all{SIGINT, SIGTERM, SIGHUP};

  [[nodiscard]] static auto heeded() -> std::vector<int> {
    std::vector<int> signals;
    for (auto const signal : all) {
      struct sigaction action {};
      auto const known = sigaction(signal, nullptr, &action) == 0;
      if (!known || action.sa_handler != SIG_IGN) signals.push_back(signal);
    }
    return signals;
  }

  void watch() {
    StopCounter counter;
    for (std::uint32_t times = 0; times < 2;) {
      auto const signal = watcher_.next();
      if (!signal) return;
      auto const counted = counter.count(*signal, std::chrono::steady_clock::now());
      if (counted == 0) continue;
      times = counted;
      for (auto const echoed : {SIGTERM, SIGHUP}) SignalWatcher::drop_echoes(echoed, StopCounter::echo);
      on_request_(times);
    }
    watcher_.let_go();
    if (watcher_.closes_within(patience)) return;
    say_last_word("raytrain: " + what_ + " did not end within " + std::to_string(patience.count()) +
                  " s of the second request to stop: a callback, a backend or a disk keeps it; this process ends with "
                  "exit status 75, start it again to go on with what is left to do\n");
    end_process();
  }

  std::string what_;
  std::function<void(std::uint32_t)> on_request_;
  SignalWatcher watcher_;
  std::thread thread_;  ///< Last: it uses everything above.
};

}  // namespace raytrain::detail
