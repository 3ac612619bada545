// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dlfcn.h>
#include <execinfo.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <span>
#include <string>
#include <thread>

#include <raytrain/core/current_error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/thread_state.hpp>

namespace raytrain::detail {

[[nodiscard]] RAYTRAIN_INLINE auto thread_file(pid_t thread, char const* name) -> std::string {
  std::ifstream file{"/proc/self/task/" + std::to_string(thread) + "/" + name};
  return {std::istreambuf_iterator<char>{file}, {}};
}

[[nodiscard]] RAYTRAIN_INLINE auto wait_of(long system_call) -> std::string {
  switch (system_call) {
    case SYS_futex: return "it waits for a lock or another thread";
    case SYS_nanosleep:
    case SYS_clock_nanosleep: return "it sleeps";
    case SYS_wait4:
    case SYS_waitid: return "it waits for a process";
    case SYS_read:
    case SYS_readv:
    case SYS_recvfrom:
    case SYS_recvmsg:
    case SYS_ppoll:
    case SYS_pselect6:
    case SYS_epoll_pwait:
#ifdef SYS_poll
    case SYS_poll:
    case SYS_select:
    case SYS_epoll_wait:
#endif
      return "it waits for data";
    case SYS_write:
    case SYS_writev:
    case SYS_sendto:
    case SYS_sendmsg: return "it waits until somebody takes its data";
    case SYS_fsync:
    case SYS_fdatasync: return "it waits for a disk";
    default: return "it waits in system call " + std::to_string(system_call);
  }
}

/// A thread is asked for its stack by a signal, and answers into this; one at a time.
class StackRequest {
 public:
  static constexpr int signal = SIGURG;  // which does nothing when it comes too late

  [[nodiscard]] static auto the_only() -> StackRequest& {
    static StackRequest request;
    return request;
  }

  /// Its frames, the innermost first; none when it does not answer.
  [[nodiscard]] auto frames_of(pid_t thread) -> std::span<void* const> {
    struct sigaction before {};
    if (state_ == State::answering || ::sigaction(signal, nullptr, &before) != 0) return {};
    if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN && before.sa_handler != answer) return {};
    struct sigaction action {};
    action.sa_handler = answer;
    action.sa_flags = SA_RESTART;
    ::sigaction(signal, &action, nullptr);
    (void)::backtrace(frames_.data(), 1);  // loads what it needs, which the handler must not
    asked_ = thread;
    state_ = State::asked;
    if (::syscall(SYS_tgkill, ::getpid(), thread, signal) == 0) await_answer();
    auto asked = State::asked;
    state_.compare_exchange_strong(asked, State::idle);
    if (state_ != State::answered) return {};
    return {frames_.data(), static_cast<std::size_t>(count_)};
  }

  std::mutex mutex;

 private:
  enum class State : std::uint8_t { idle, asked, answering, answered };

  StackRequest() = default;

  static void answer(int) {
    auto const error = errno;
    auto& request = the_only();
    auto asked = State::asked;
    if (::gettid() == request.asked_ && request.state_.compare_exchange_strong(asked, State::answering)) {
      request.count_ = ::backtrace(request.frames_.data(), static_cast<int>(request.frames_.size()));
      request.state_ = State::answered;
    }
    errno = error;
  }

  void await_answer() const {
    for (int looks = 0; looks < 200 && state_ != State::answered; ++looks)
      std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }

  std::atomic<State> state_{State::idle};
  std::atomic<pid_t> asked_{0};
  static_assert(std::atomic<State>::is_always_lock_free);
  std::array<void*, 64> frames_{};
  int count_ = 0;
};

[[nodiscard]] RAYTRAIN_INLINE auto frame_text(void* address) -> std::string {
  constexpr std::size_t most_characters = 120;
  Dl_info info{};
  if (::dladdr(address, &info) == 0 || info.dli_fname == nullptr) return {};
  if (info.dli_sname == nullptr) {
    auto const offset = static_cast<std::byte const*>(address) - static_cast<std::byte const*>(info.dli_fbase);
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "+0x%zx", static_cast<std::size_t>(offset));
    return std::filesystem::path{info.dli_fname}.filename().string() + text.data();
  }
  auto text = demangled(info.dli_sname);
  if (text.size() > most_characters) text = text.substr(0, most_characters - 3) + "...";
  return text;
}

}  // namespace raytrain::detail

namespace raytrain {

RAYTRAIN_INLINE auto thread_activity(pid_t thread) -> std::string {
  auto const stat = detail::thread_file(thread, "stat");  // "NUMBER (NAME) STATE ...", and ')' may be part of a name
  auto const name_end = stat.rfind(") ");
  if (name_end == std::string::npos || name_end + 2 >= stat.size()) return {};
  switch (stat[name_end + 2]) {
    case 'R': return "it computes";
    case 'D': return "it waits for a disk or a device";
    case 'T':
    case 't': return "it is stopped";
    default: break;
  }
  auto const system_call = detail::thread_file(thread, "syscall");  // "NUMBER ARGUMENTS ...", or "running"
  if (system_call.empty() || system_call[0] < '0' || system_call[0] > '9') return "it waits";
  return detail::wait_of(std::strtol(system_call.c_str(), nullptr, 10));
}

RAYTRAIN_INLINE auto thread_stack(pid_t thread) -> std::string {
  constexpr std::size_t handler_frames = 2;  // the handler, and the trampoline to it
  constexpr std::size_t most_frames = 12;
  auto& request = detail::StackRequest::the_only();
  std::scoped_lock const lock{request.mutex};
  auto frames = request.frames_of(thread);
  if (frames.size() <= handler_frames) return {};
  frames = frames.subspan(handler_frames);
  std::string text;
  for (auto* const frame : frames.first(std::min(frames.size(), most_frames))) {
    auto const name = detail::frame_text(frame);
    if (name.find("raytrain::detail::run_training<") != std::string::npos) break;  // which has called what users write
    if (name.empty()) continue;
    text += (text.empty() ? "in " : ", called by ") + name;
  }
  return text;
}

}  // namespace raytrain
