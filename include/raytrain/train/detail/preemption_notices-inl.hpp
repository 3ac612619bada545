// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <utility>
#include <vector>

#include <raytrain/core/inline.hpp>
#include <raytrain/train/detail/preemption_notices.hpp>

namespace raytrain::detail {

/// Who has sent this process the last SIGTERM. It stands before the handler that is there, and calls it.
class TerminatingProcess {
 public:
  [[nodiscard]] static auto last() noexcept -> ::pid_t { return last_; }

  static void observe() noexcept {
    sigaction(SIGTERM, nullptr, &before_);
    auto observing = before_;
    observing.sa_flags |= SA_SIGINFO;
    observing.sa_sigaction = &TerminatingProcess::on_signal;
    sigaction(SIGTERM, &observing, nullptr);
  }

 private:
  static void on_signal(int signal, ::siginfo_t* info, void*) noexcept {
    last_ = info->si_pid;
    before_.sa_handler(signal);
  }

  static inline std::atomic<::pid_t> last_{0};
  static inline struct sigaction before_ {};
};

RAYTRAIN_INLINE auto heeded_sigterm() -> std::vector<int> {
  struct sigaction action {};
  auto const is_ignored = sigaction(SIGTERM, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
  return is_ignored ? std::vector<int>{} : std::vector{SIGTERM};
}

RAYTRAIN_INLINE PreemptionNotices::PreemptionNotices(bool launcher_ends_job, std::function<void()> on_notice)
    : signals_{heeded_sigterm(), [launcher_ends_job, on_notice = std::move(on_notice)](int) {
                 auto const is_of_launcher = launcher_ends_job && TerminatingProcess::last() == ::getppid();
                 if (!is_of_launcher) on_notice();
               }} {
  if (!heeded_sigterm().empty() && launcher_ends_job) TerminatingProcess::observe();
}

}  // namespace raytrain::detail
