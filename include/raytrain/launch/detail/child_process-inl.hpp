// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <raytrain/core/error.hpp>
#include <raytrain/core/file_descriptor.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/launch/detail/child_process.hpp>

namespace raytrain::detail {

// A null ends each.
RAYTRAIN_INLINE auto read_arguments() -> std::vector<std::string> {
  std::ifstream file{"/proc/self/cmdline", std::ios::binary};
  std::string const all{std::istreambuf_iterator<char>{file}, {}};
  std::vector<std::string> arguments;
  for (std::size_t begin = 0; begin < all.size();) {
    auto const end = std::min(all.find('\0', begin), all.size());
    arguments.push_back(all.substr(begin, end - begin));
    begin = end + 1;
  }
  return arguments;
}

/// Read before main, which may write over them.
inline std::vector<std::string> const arguments_at_start = read_arguments();

RAYTRAIN_INLINE auto program_arguments() -> std::vector<std::string> { return arguments_at_start; }

/// This process's environment, with these variables instead of its own.
RAYTRAIN_INLINE auto environment_with(std::vector<std::string> variables) -> std::vector<std::string> {
  auto const name_of = [](std::string_view variable) { return variable.substr(0, variable.find('=')); };
  auto const count = variables.size();
  for (auto** variable = environ; *variable != nullptr; ++variable) {
    auto const is_replaced = std::any_of(variables.begin(), variables.begin() + static_cast<std::ptrdiff_t>(count),
                                         [&](auto const& it) { return name_of(it) == name_of(*variable); });
    if (!is_replaced) variables.emplace_back(*variable);
  }
  return variables;
}

RAYTRAIN_INLINE auto pointers_to(std::vector<std::string>& texts) -> std::vector<char*> {
  std::vector<char*> pointers;
  for (auto& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

[[noreturn]] RAYTRAIN_INLINE void fail_to_start(int error, std::string const& what) {
  throw Error{
      Errc::worker_failed, "starting a worker process",
      what + ": " + std::error_code{error, std::generic_category()}.message(),
      "lower ScalingConfig::num_workers, or raise the limit on processes (ulimit -u) or open files (ulimit -n)"};
}

RAYTRAIN_INLINE void reap(::pid_t pid) noexcept {
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

RAYTRAIN_INLINE auto exit_of(::siginfo_t const& info) -> ProcessExit {
  if (info.si_code == 0)
    return {"has ended, and this program does not learn how: it ignores SIGCHLD, or waits for all children"};
  if (info.si_code == CLD_EXITED) return {"exited with status " + std::to_string(info.si_status), info.si_status};
  auto const* const name = ::sigdescr_np(info.si_status);
  auto text = "was ended by signal " + std::to_string(info.si_status) + " (" + (name == nullptr ? "?" : name) + ')';
  if (info.si_status == SIGKILL) text += ": by somebody, or by the system where memory is short";
  return {std::move(text), std::nullopt, info.si_status};
}

RAYTRAIN_INLINE ChildProcess::ChildProcess(Options options)
    : kill_limit_{options.kill_limit}, pid_{start(options)}, has_own_group_{options.has_own_group} {
  watched_->pid = pid_;
  watched_->on_exit = std::move(options.on_exit);
  try {
    watcher_ = std::thread{[watched = watched_] { watch(*watched); }};
  } catch (std::system_error const& error) {
    ::kill(pid_, SIGKILL);
    reap(pid_);
    fail_to_start(error.code().value(), "a thread that waits for its end");
  }
}

RAYTRAIN_INLINE ChildProcess::~ChildProcess() {
  kill();
  std::unique_lock lock{watched_->mutex};
  auto const due = *watched_->killed_at + kill_limit_;
  watched_->is_left = !watched_->changed.wait_until(lock, due, [this] { return watched_->has_ended; });
  lock.unlock();
  watched_->is_left ? watcher_.detach() : wait();
}

RAYTRAIN_INLINE auto is_suspended(::pid_t process) -> bool {
  std::ifstream file{"/proc/" + std::to_string(process) + "/stat"};
  std::string line;
  std::getline(file, line);
  auto const state = line.rfind(") ");  // behind the name, which may hold anything
  return state != std::string::npos && line.compare(state + 2, 1, "T") == 0;
}

RAYTRAIN_INLINE void ChildProcess::kill(int signal) noexcept {
  std::scoped_lock const lock{watched_->mutex};
  if (signal == SIGKILL && !watched_->killed_at) watched_->killed_at = std::chrono::steady_clock::now();
  if (!watched_->has_ended) ::kill(signal == SIGKILL && has_own_group_ ? -pid_ : pid_, signal);
}

RAYTRAIN_INLINE void ChildProcess::wait() {
  if (watcher_.joinable()) watcher_.join();
}

RAYTRAIN_INLINE auto ChildProcess::start(Options const& options) -> ::pid_t {
  // All that needs memory or locks, before the fork: another thread may hold them, and is not there in the child.
  auto const is_program = options.command.empty();
  auto arguments = is_program ? program_arguments() : options.command;
  auto variables = environment_with(options.variables);
  auto const argv = pointers_to(arguments);
  auto const envp = pointers_to(variables);
  auto const parent = ::getpid();
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) fail_to_start(errno, "pipe");
  FileDescriptor const told{ends[0]};
  FileDescriptor tells{ends[1]};

  auto const pid = ::fork();
  if (pid < 0) fail_to_start(errno, "fork");
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, options.signal_of_death);
    if (::getppid() != parent) ::_exit(1);
    if (options.has_own_group) ::setpgid(0, 0);
    for (auto const signal : {SIGINT, SIGHUP}) ::signal(signal, is_program ? SIG_IGN : SIG_DFL);
    auto const is_ignored = ::signal(SIGTERM, SIG_DFL) == SIG_IGN;
    if (is_program && is_ignored) ::signal(SIGTERM, SIG_IGN);
    for (auto const signal : {SIGUSR1, SIGUSR2}) {
      if (is_program && ::signal(signal, SIG_IGN) == SIG_DFL) ::signal(signal, SIG_DFL);
    }
    // A shell cannot take what it was born to ignore.
    for (auto const signal : {SIGUSR1, SIGCHLD}) {
      if (!is_program) ::signal(signal, SIG_DFL);
    }
    ::sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    auto const nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (nothing >= 0) ::dup2(nothing, STDIN_FILENO);
    for (auto const file : options.descriptors) ::fcntl(file, F_SETFD, 0);
    if (is_program) {
      ::execve("/proc/self/exe", argv.data(), envp.data());
    } else {
      ::execvpe(argv.front(), argv.data(), envp.data());
    }
    auto const error = errno;
    [[maybe_unused]] auto const written = ::write(tells.get(), &error, sizeof error);
    ::_exit(127);
  }
  tells = FileDescriptor{};
  // One that a signal stops before it is the new program tells nothing.
  constexpr int step_ms = 500;
  ::pollfd news{told.get(), POLLIN, 0};
  while (::poll(&news, 1, step_ms) <= 0) {
    if (detail::is_suspended(pid)) ::kill(pid, SIGKILL);
  }
  int error = 0;
  ::ssize_t count = 0;
  do count = ::read(told.get(), &error, sizeof error);
  while (count < 0 && errno == EINTR);
  if (count <= 0) return pid;  // closed by the new program
  reap(pid);
  fail_to_start(error, "execve of " + (is_program ? "/proc/self/exe" : options.command.front()));
}

RAYTRAIN_INLINE void ChildProcess::watch(Watched& process) noexcept {
  auto const id = static_cast<::id_t>(process.pid);
  ::siginfo_t info{};
  while (::waitid(P_PID, id, &info, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
  }
  {
    std::scoped_lock const lock{process.mutex};
    process.has_ended = true;
    while (::waitid(P_PID, id, &info, WEXITED) != 0 && errno == EINTR) {
    }
    process.changed.notify_all();
    if (process.is_left) return;
  }
  process.on_exit(exit_of(info));
}

}  // namespace raytrain::detail
