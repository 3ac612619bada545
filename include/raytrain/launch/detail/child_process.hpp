// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace raytrain::detail {

/// Those that this process was started with, from /proc/self/cmdline, whatever its program has made of them since.
[[nodiscard]] auto program_arguments() -> std::vector<std::string>;

/// Whether a signal (SIGSTOP) has suspended a process of this host, and none has let it go on.
[[nodiscard]] auto is_suspended(::pid_t process) -> bool;

/// How a process has ended.
struct ProcessExit {
  std::string text{};           ///< As "exited with status 1".
  std::optional<int> status{};  ///< Of one that has exited; none where a signal has ended it, or nobody knows.
  int signal = 0;               ///< By which it was ended; 0: by none.
};

/// A program that this process has started in its own folder, and that is killed with this object. It is sent a signal,
/// too, when the thread that has made it ends, or the whole process.
///
/// Threads: any.
class ChildProcess {
 public:
  struct Options {
    std::vector<std::string> command{};    ///< Looked for in PATH; empty: this program again, with the same arguments.
    int signal_of_death = SIGKILL;         ///< Sent to it alone when its maker ends, maybe more than once.
    bool has_own_group = false;            ///< What a terminal sends to all processes of a command is not for it.
    std::vector<std::string> variables{};  ///< NAME=VALUE, beside those of this process's environment or instead.
    std::vector<int> descriptors{};        ///< It inherits them, as all without FD_CLOEXEC.
    std::function<void(ProcessExit)> on_exit{};  ///< At most once, from another thread; not after `kill_limit`.
    /// How long the destructor waits for it behind a SIGKILL. One that lives on, as in a call to a file system that
    /// does not answer, is left to the system.
    std::chrono::milliseconds kill_limit{5000};
  };

  /// Its stdin is empty. This program again ignores SIGINT and SIGHUP, which a terminal sends to all processes that a
  /// command has started: who has started it is asked to stop, and tells it. It ignores SIGTERM where this process
  /// does, and SIGUSR1 and SIGUSR2 where this process takes or ignores them, which mostly all processes of a program
  /// are sent: until it takes them itself.
  ///
  /// Errors: `worker_failed` when the system has no process for it.
  explicit ChildProcess(Options options);
  ChildProcess(ChildProcess const&) = delete;
  auto operator=(ChildProcess const&) -> ChildProcess& = delete;
  ~ChildProcess();

  [[nodiscard]] auto pid() const noexcept -> ::pid_t { return pid_; }

  [[nodiscard]] auto is_suspended() const -> bool { return detail::is_suspended(pid_); }

  /// If it has not ended. A SIGKILL goes to its whole group, if it has its own.
  void kill(int signal = SIGKILL) noexcept;

  /// Waits until it has ended, and `on_exit` returned.
  void wait();

 private:
  /// What the thread has that waits for the process, also when this object is gone.
  struct Watched {
    ::pid_t pid = 0;
    std::function<void(ProcessExit)> on_exit{};
    std::mutex mutex{};
    std::condition_variable changed{};
    bool has_ended = false;  ///< Its number may be another process's.
    bool is_left = false;    ///< Nobody is told any more.
    std::optional<std::chrono::steady_clock::time_point> killed_at{};
  };

  [[nodiscard]] static auto start(Options const& options) -> ::pid_t;

  static void watch(Watched& process) noexcept;

  std::chrono::milliseconds kill_limit_;
  ::pid_t pid_;
  bool has_own_group_;
  std::shared_ptr<Watched> watched_ = std::make_shared<Watched>();
  std::thread watcher_;
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/launch/detail/child_process-inl.hpp>
#endif
