// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pthread.h>
#include <signal.h>

#include <cstddef>
#include <map>
#include <mutex>
#include <utility>

namespace raytrain::detail {

/// Brings back what a signal did before it was watched: Asio itself leaves the default, which ends the process.
///
/// The first of several for one signal saves, the last one to go restores. A forked child has it back at once.
///
/// Threads: any.
class SavedSignalAction {
 public:
  using Action = struct sigaction;

  explicit SavedSignalAction(int signal) : signal_{signal} {
    [[maybe_unused]] static int const registered = pthread_atfork(&lock, &unlock, &restore_in_child);
    std::lock_guard const lock{mutex_};
    auto& saved = saved_[signal];
    if (saved.users++ == 0) sigaction(signal, nullptr, &saved.action);
  }
  SavedSignalAction(SavedSignalAction const&) = delete;
  auto operator=(SavedSignalAction const&) -> SavedSignalAction& = delete;
  ~SavedSignalAction() {
    std::lock_guard const lock{mutex_};
    auto const saved = saved_.find(signal_);
    if (saved == saved_.end() || --saved->second.users > 0) return;
    sigaction(signal_, &saved->second.action, nullptr);
    saved_.erase(saved);
  }

  /// What comes back for a signal that is saved becomes `action`; gives what it was.
  static auto exchange(int signal, Action const& action) -> Action {
    std::lock_guard const lock{mutex_};
    return std::exchange(saved_.at(signal).action, action);
  }

 private:
  struct Saved {
    std::size_t users = 0;
    Action action{};
  };

  // Asio's handler would tell the parent of the child's signals, through a pipe that both have. None comes in between.
  static void lock() {
    mutex_.lock();
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &mask_);
  }
  static void unlock() {
    pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
    mutex_.unlock();
  }
  static void restore_in_child() {
    for (auto const& [signal, saved] : saved_) sigaction(signal, &saved.action, nullptr);
    saved_.clear();
    unlock();
  }

  static inline std::mutex mutex_;
  static inline sigset_t mask_;  ///< Of a thread that forks.
  static inline std::map<int, Saved> saved_;
  int signal_;
};

}  // namespace raytrain::detail
