// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>

namespace raytrain {

/// Lets a write to a pipe or connection that is gone fail by EPIPE while this exists, where the signal would end the
/// process.
///
/// Threads: what the calling one writes.
class BrokenPipeGuard {
 public:
  BrokenPipeGuard() noexcept;
  BrokenPipeGuard(BrokenPipeGuard const&) = delete;
  auto operator=(BrokenPipeGuard const&) -> BrokenPipeGuard& = delete;
  ~BrokenPipeGuard();

 private:
  sigset_t broken_pipe_{};
  sigset_t before_{};
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/core/broken_pipe_guard-inl.hpp>
#endif
