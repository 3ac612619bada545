// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <future>
#include <iostream>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>

#include <raytrain/core/file_descriptor.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/process.hpp>
#include <raytrain/launch/process_end.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE auto takes_writing(int file) noexcept -> bool {
  ::pollfd writable{file, POLLOUT, 0};
  int ready = 0;
  do ready = ::poll(&writable, 1, 100);
  while (ready < 0 && errno == EINTR);
  return ready > 0 && (writable.revents & POLLOUT) != 0;
}

RAYTRAIN_INLINE void flush_unless_locked(std::FILE* stream) noexcept {
  BrokenPipeGuard const guard;
  if (!takes_writing(::fileno(stream)) || ::ftrylockfile(stream) != 0) return;
  std::fflush(stream);
  ::funlockfile(stream);
}

RAYTRAIN_INLINE void write_stderr(std::string_view text) noexcept {
  BrokenPipeGuard const guard;
  flush_unless_locked(stdout);
  while (!text.empty() && takes_writing(STDERR_FILENO)) {
    auto const written = ::write(STDERR_FILENO, text.data(), std::min(text.size(), std::size_t{PIPE_BUF}));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

RAYTRAIN_INLINE void flush_files(std::chrono::milliseconds limit) noexcept {
  try {
    std::promise<void> flushed;
    auto const done = flushed.get_future();
    std::thread{[flushed = std::move(flushed)]() mutable {
      BrokenPipeGuard const guard;
      for (auto* const stream : {&std::cout, &std::clog}) {
        stream->exceptions(std::ios::goodbit);
        stream->flush();
      }
      std::fflush(nullptr);
      flushed.set_value();
    }}.detach();
    done.wait_for(limit);
  } catch (std::exception const&) {
    // Where there is no memory for a thread.
  }
}

RAYTRAIN_INLINE void end_process(int status) noexcept {
  flush_unless_locked(stdout);
  flush_unless_locked(stderr);
  ::_exit(status);
}

RAYTRAIN_INLINE ExitGuard::ExitGuard() {
  [[maybe_unused]] static int const registered = std::atexit(&refuse) + std::at_quick_exit(&refuse);
  generation_ = fork_generation();
  std::lock_guard const lock{mutex_};
  ++living_;
}

RAYTRAIN_INLINE void ExitGuard::end_process_beside_others() noexcept {
  count_down();
  std::unique_lock lock{mutex_};
  changed_.wait_for(lock, std::chrono::seconds{1}, [] { return living_ == 0; });
  end_process();
}

RAYTRAIN_INLINE void ExitGuard::count_down() noexcept {
  std::lock_guard const lock{mutex_};
  --living_;
  changed_.notify_all();
}

RAYTRAIN_INLINE void ExitGuard::refuse() noexcept {
  if (living_ == 0 || generation_ != fork_generation()) return;
  write_stderr(
      "raytrain: the program called exit() before fit() had returned: return from the training function or "
      "the callback, or throw; this process ends with exit status 75, start it again to go on with what is left to "
      "do\n");
  end_process();
}

}  // namespace raytrain::detail
