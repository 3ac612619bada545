// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <semaphore.h>
#include <signal.h>
#include <sys/types.h>
#include <time.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/exec/detail/signal_handlers.hpp>
#include <raytrain/exec/signals.hpp>

namespace raytrain {

RAYTRAIN_INLINE SignalWatcher::SignalWatcher(std::vector<int> const& signals, ::pid_t ignored_sender)
    : inbox_{detail::SignalHandlers::take_inbox(ignored_sender)} {
  signals_.reserve(signals.size());
  if (inbox_ == nullptr) {
    throw Error{Errc::invalid_call, "SignalWatcher",
                std::to_string(detail::SignalHandlers::inbox_count) + " others watch already in this process",
                "set RunConfig::handle_signals = false for trainings beyond these"};
  }
  for (auto const signal : signals) {
    if (detail::SignalHandlers::acquire(*inbox_, signal)) {
      signals_.push_back(signal);
      continue;
    }
    std::error_code const error{errno, std::generic_category()};
    let_go();
    detail::SignalHandlers::give_back(*inbox_);
    throw Error{Errc::invalid_call, "SignalWatcher",
                "signal " + std::to_string(signal) + " cannot be caught: " + error.message(),
                "watch signals such as SIGINT and SIGTERM"};
  }
}

RAYTRAIN_INLINE SignalWatcher::~SignalWatcher() {
  let_go();
  detail::SignalHandlers::give_back(*inbox_);
}

RAYTRAIN_INLINE auto SignalWatcher::heeded(std::vector<int> const& signals) -> std::vector<int> {
  std::vector<int> heeded;
  for (auto const signal : signals) {
    struct sigaction action {};
    auto const known = sigaction(signal, nullptr, &action) == 0;
    if (!known || action.sa_handler != SIG_IGN) heeded.push_back(signal);
  }
  return heeded;
}

RAYTRAIN_INLINE auto SignalWatcher::next() -> std::optional<int> {
  while (true) {
    if (auto const signal = take()) return signal;
    if (closed_ && has_let_go_) return std::nullopt;
    if (closed_) {
      let_go();
      continue;
    }
    while (::sem_wait(&inbox_->wake_up) != 0) {
    }
  }
}

RAYTRAIN_INLINE auto SignalWatcher::closes_within(std::chrono::nanoseconds duration) -> bool {
  auto const until = std::chrono::steady_clock::now().time_since_epoch() + duration;
  auto const seconds = std::chrono::duration_cast<std::chrono::seconds>(until);
  ::timespec const deadline{seconds.count(), (until - seconds).count()};
  while (!closed_) {
    if (::sem_clockwait(&inbox_->wake_up, CLOCK_MONOTONIC, &deadline) != 0 && errno == ETIMEDOUT) break;
  }
  return closed_;
}

RAYTRAIN_INLINE void SignalWatcher::close() {
  closed_ = true;
  ::sem_post(&inbox_->wake_up);
}

RAYTRAIN_INLINE void SignalWatcher::let_go() {
  if (std::exchange(has_let_go_, true)) return;
  for (auto const signal : signals_) detail::SignalHandlers::release(*inbox_, signal);
}

RAYTRAIN_INLINE void SignalWatcher::drop_echoes(int signal, std::chrono::nanoseconds duration) {
  detail::SignalHandlers::drop_echoes(signal, duration);
}

RAYTRAIN_INLINE auto SignalWatcher::take() -> std::optional<int> {
  for (auto const signal : signals_) {
    auto& pending = inbox_->pending.at(static_cast<std::size_t>(signal));
    if (pending == 0) continue;
    --pending;
    return signal;
  }
  return std::nullopt;
}

}  // namespace raytrain
