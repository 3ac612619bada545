// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstdio>
#include <string_view>

#include <raytrain/core/broken_pipe_guard.hpp>

namespace raytrain::detail {

/// Exit status of a process whose training is not finished; the next start goes on with it (EX_TEMPFAIL of sysexits.h).
inline constexpr int unfinished_exit_code = 75;

/// Whether up to 4 KiB can be written without waiting, now or within 100 ms: a pipe may be full, and nobody read it.
[[nodiscard]] inline auto takes_writing(int file) noexcept -> bool {
  ::pollfd writable{file, POLLOUT, 0};
  int ready = 0;
  do ready = ::poll(&writable, 1, 100);
  while (ready < 0 && errno == EINTR);
  return ready > 0 && (writable.revents & POLLOUT) != 0;
}

/// Writes what the program has printed, unless that would wait for a reader, or for a thread that does not return and
/// is in the middle of it.
inline void flush_unless_locked(std::FILE* stream) noexcept {
  BrokenPipeGuard const guard;
  if (!takes_writing(::fileno(stream)) || ::ftrylockfile(stream) != 0) return;
  std::fflush(stream);
  ::funlockfile(stream);
}

/// Writes to stderr what nobody else can say, mostly of a process that will end itself. It gives up where a reader
/// keeps it waiting for 100 ms.
inline void say_last_word(std::string_view text) noexcept {
  BrokenPipeGuard const guard;
  flush_unless_locked(stdout);
  while (!text.empty() && takes_writing(STDERR_FILENO)) {
    auto const written = ::write(STDERR_FILENO, text.data(), std::min(text.size(), std::size_t{PIPE_BUF}));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

/// Ends this process, whatever its other threads do: no destructors, no handlers.
[[noreturn]] inline void end_process() noexcept {
  flush_unless_locked(stdout);
  flush_unless_locked(stderr);
  ::_exit(unfinished_exit_code);
}

}  // namespace raytrain::detail
