// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>

#include <cstdint>
#include <functional>

#include <raytrain/exec/executor.hpp>
#include <raytrain/exec/scope.hpp>
#include <raytrain/exec/signals.hpp>

namespace raytrain::detail {

// A third signal finds the handler from before, which ends a program whose workers do not return.
inline auto watch_signal(Executor& executor, int signal, std::function<void(std::uint32_t)> on_request)
    -> asio::awaitable<void> {
  struct sigaction action {};
  auto const known = sigaction(signal, nullptr, &action) == 0;
  if (known && action.sa_handler == SIG_IGN) co_return;  // as nohup and shells ask for what runs in the background
  SignalWatcher watcher{executor, {signal}};
  for (std::uint32_t times = 1; times <= 2; ++times) {
    co_await watcher.next();
    on_request(times);
  }
}

/// Calls `on_request` with how manieth signal it is, 1 or 2, for SIGINT and SIGTERM each.
inline void watch_stop_signals(Executor& executor, Scope& scope, std::function<void(std::uint32_t)> const& on_request) {
  for (auto const signal : {SIGINT, SIGTERM}) scope.spawn(watch_signal(executor, signal, on_request));
}

}  // namespace raytrain::detail
