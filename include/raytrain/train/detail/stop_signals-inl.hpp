// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <signal.h>

#include <chrono>
#include <cstdint>
#include <string>

#include <raytrain/core/inline.hpp>
#include <raytrain/exec/signals.hpp>
#include <raytrain/launch/process_end.hpp>
#include <raytrain/train/detail/stop_signals.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE auto StopCounter::count(int signal, TimePoint now) -> std::uint32_t {
  auto const pressed_again = signal == SIGINT && request_has_sigint_;
  if (times_ > 0 && now < settled_ && !pressed_again) {
    request_has_sigint_ = request_has_sigint_ || signal == SIGINT;
    return 0;
  }
  request_has_sigint_ = signal == SIGINT;
  settled_ = now + echo;
  return ++times_;
}

RAYTRAIN_INLINE StopSignals::~StopSignals() {
  watcher_.close();
  thread_.join();
}

RAYTRAIN_INLINE void StopSignals::drop_echoes() {
  for (auto const signal : {SIGTERM, SIGHUP}) SignalWatcher::drop_echoes(signal, StopCounter::echo);
}

RAYTRAIN_INLINE void StopSignals::watch() {
  StopCounter counter;
  for (std::uint32_t times = 0; times < 2;) {
    auto const signal = watcher_.next();
    if (!signal) return;
    auto const counted = counter.count(*signal, std::chrono::steady_clock::now());
    if (counted == 0) continue;
    times = counted;
    drop_echoes();
    on_request_(times);
  }
  watcher_.let_go();
  if (watcher_.closes_within(forced_exit_delay)) return;
  write_stderr("raytrain: " + what_ + " did not end within " + std::to_string(forced_exit_delay.count()) +
               " s of the second request to stop: a callback, a backend or a disk keeps it; this process ends with "
               "exit status 75, start it again to go on with what is left to do\n");
  end_process();
}

}  // namespace raytrain::detail
