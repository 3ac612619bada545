// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>
#include <ctime>

#include <pthread.h>

namespace raytrain {

/// Lets a write to a pipe or connection that is gone fail by EPIPE while this exists, where the signal would end the
/// process.
///
/// Threads: what the calling one writes.
class BrokenPipeGuard {
 public:
  BrokenPipeGuard() noexcept {
    sigemptyset(&broken_pipe_);
    sigaddset(&broken_pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &broken_pipe_, &before_);
  }
  BrokenPipeGuard(BrokenPipeGuard const&) = delete;
  auto operator=(BrokenPipeGuard const&) -> BrokenPipeGuard& = delete;
  ~BrokenPipeGuard() {
    if (sigismember(&before_, SIGPIPE) == 1) return;
    timespec const now{};
    (void)sigtimedwait(&broken_pipe_, nullptr, &now);  // one that waits would come when it may
    pthread_sigmask(SIG_UNBLOCK, &broken_pipe_, nullptr);
  }

 private:
  sigset_t broken_pipe_{};
  sigset_t before_{};
};

}  // namespace raytrain
