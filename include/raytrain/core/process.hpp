// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>
#include <string>

namespace raytrain {

/// What this machine calls itself; "localhost" when it cannot say.
[[nodiscard]] auto host_name() -> std::string;

}  // namespace raytrain

namespace raytrain::detail {

/// Opens /dev/null in place of stdin, stdout or stderr if the program was started without it. Otherwise the next file
/// that is opened takes its number, and what the program prints goes into that file.
void open_standard_streams() noexcept;

}  // namespace raytrain::detail

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
#include <raytrain/core/process-inl.hpp>
#endif
