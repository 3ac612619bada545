// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <string_view>

namespace raytrain::detail {

/// Exit status of a process whose training is not finished; the next start goes on with it (EX_TEMPFAIL of sysexits.h).
inline constexpr int unfinished_exit_code = 75;

/// Writes what the program has printed, unless a thread that does not return is in the middle of that.
inline void flush_unless_locked(std::FILE* stream) noexcept {
  if (::ftrylockfile(stream) != 0) return;
  std::fflush(stream);
  ::funlockfile(stream);
}

/// On stderr, of a process that will end itself: there nobody else could say it.
inline void say_last_word(std::string_view text) noexcept {
  flush_unless_locked(stdout);
  while (!text.empty()) {
    auto const written = ::write(STDERR_FILENO, text.data(), text.size());
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
