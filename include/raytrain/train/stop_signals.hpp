// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>

#include <chrono>
#include <cstdint>
#include <functional>
#include <utility>

#include <raytrain/core/clock.hpp>
#include <raytrain/exec/executor.hpp>
#include <raytrain/exec/scope.hpp>
#include <raytrain/exec/signals.hpp>

namespace raytrain::detail {

/// Calls `on_request(1)` for the first and `on_request(2)` for the second of each signal (SIGINT, SIGTERM, SIGHUP),
/// until its scope is cancelled.
///
/// SIGTERM or SIGHUP that follows another one at once counts as the same, also when nobody watches any more: Slurm
/// sends each process two, itself and through srun.
/// Threads: the executor's. Outlives the scope's coroutines.
class StopSignals {
 public:
  static constexpr std::chrono::seconds echo{1};

  StopSignals(Executor& executor, Scope& scope, std::function<void(std::uint32_t)> on_request)
      : executor_{executor}, on_request_{std::move(on_request)} {
    for (auto const signal : {SIGINT, SIGTERM, SIGHUP}) scope.spawn(watch(signal));
  }
  StopSignals(StopSignals const&) = delete;
  auto operator=(StopSignals const&) -> StopSignals& = delete;

 private:
  // A third signal finds the handler from before, which ends a program whose workers do not return.
  auto watch(int signal) -> asio::awaitable<void> {
    struct sigaction action {};
    auto const known = sigaction(signal, nullptr, &action) == 0;
    if (known && action.sa_handler == SIG_IGN) co_return;  // as nohup and shells ask for what runs in the background
    SignalWatcher watcher{executor_, {signal}};
    Clock::TimePoint settled{};
    for (std::uint32_t times = 0; times < 2;) {
      co_await watcher.next();
      auto const now = executor_.clock().now();
      if (signal != SIGINT) {
        if (times > 0 && now < settled) continue;
        settled = now + echo;
        SignalWatcher::drop_echoes(signal, echo);
      }
      on_request_(++times);
    }
  }

  Executor& executor_;
  std::function<void(std::uint32_t)> on_request_;
};

}  // namespace raytrain::detail
