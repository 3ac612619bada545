// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>
#include <ctime>

#include <raytrain/core/broken_pipe_guard.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain {

RAYTRAIN_INLINE BrokenPipeGuard::BrokenPipeGuard() noexcept {
  sigemptyset(&broken_pipe_);
  sigaddset(&broken_pipe_, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &broken_pipe_, &before_);
}

RAYTRAIN_INLINE BrokenPipeGuard::~BrokenPipeGuard() {
  if (sigismember(&before_, SIGPIPE) == 1) return;
  timespec const now{};
  (void)sigtimedwait(&broken_pipe_, nullptr, &now);  // one that waits would come when it may
  pthread_sigmask(SIG_UNBLOCK, &broken_pipe_, nullptr);
}

}  // namespace raytrain
