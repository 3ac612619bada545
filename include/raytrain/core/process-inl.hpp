// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <ctime>
#include <string>

#include <raytrain/core/inline.hpp>
#include <raytrain/core/process.hpp>

namespace raytrain {

RAYTRAIN_INLINE auto host_name() -> std::string {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? std::string{name.data()} : "localhost";
}

}  // namespace raytrain

namespace raytrain::detail {

RAYTRAIN_INLINE void open_standard_streams() noexcept {
  auto file = 0;
  do file = ::open("/dev/null", O_RDWR);  // the lowest number that is free
  while (file >= 0 && file <= STDERR_FILENO);
  if (file >= 0) ::close(file);
}

}  // namespace raytrain::detail

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
