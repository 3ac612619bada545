// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <signal.h>
#include <time.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include <raytrain/exec/detail/saved_signal_action.hpp>

namespace raytrain::detail {

/// Takes signals that follow one that was a request, and belong to it, when nobody watches any more: Slurm sends two
/// SIGTERM, a shell and the kernel one SIGHUP each. Later ones do what they did before the watching.
///
/// Threads: any.
class EchoFilter {
 public:
  /// For a signal that is being watched: what comes back afterwards drops it for this long, from now on.
  static void expect(int signal, std::chrono::nanoseconds duration) {
    auto& state = states_.at(static_cast<std::size_t>(signal));
    state.until_ns = now_ns() + duration.count();
    struct sigaction filter {};
    filter.sa_handler = &EchoFilter::take;
    filter.sa_flags = SA_RESTART;
    sigemptyset(&filter.sa_mask);
    auto const before = SavedSignalAction::exchange(signal, filter);
    if (before.sa_handler != &EchoFilter::take) state.before = before;
  }

 private:
  struct State {
    std::atomic<std::int64_t> until_ns;
    struct sigaction before;
  };

  [[nodiscard]] static auto now_ns() noexcept -> std::int64_t {
    ::timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * std::int64_t{1'000'000'000} + now.tv_nsec;
  }

  // A signal handler.
  static void take(int signal) noexcept {
    auto const& state = states_[static_cast<std::size_t>(signal)];
    if (now_ns() < state.until_ns) return;
    sigaction(signal, &state.before, nullptr);
    raise(signal);
  }

  static inline std::array<State, NSIG> states_{};
};

}  // namespace raytrain::detail
