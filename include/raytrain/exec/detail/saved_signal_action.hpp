// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <signal.h>

#include <cstddef>
#include <map>
#include <mutex>
#include <utility>

namespace raytrain::detail {

/// Brings back what a signal did before it was watched: Asio itself leaves the default, which ends the process.
///
/// The first of several for one signal saves, the last one to go restores.
///
/// Threads: any.
class SavedSignalAction {
 public:
  explicit SavedSignalAction(int signal) : signal_{signal} {
    std::lock_guard const lock{mutex_};
    auto& saved = saved_[signal];
    if (saved.users++ == 0) sigaction(signal, nullptr, &saved.action);
  }
  SavedSignalAction(SavedSignalAction const&) = delete;
  auto operator=(SavedSignalAction const&) -> SavedSignalAction& = delete;
  ~SavedSignalAction() {
    std::lock_guard const lock{mutex_};
    auto const saved = saved_.find(signal_);
    if (--saved->second.users > 0) return;
    sigaction(signal_, &saved->second.action, nullptr);
    saved_.erase(saved);
  }

  /// What comes back for a signal that is saved becomes `action`; gives what it was.
  static auto exchange(int signal, struct sigaction const& action) -> struct sigaction {
    std::lock_guard const lock{mutex_};
    return std::exchange(saved_.at(signal).action, action);
  }

  private : struct Saved {
    std::size_t users = 0;
    struct sigaction action {};
  };

  static inline std::mutex mutex_;
  static inline std::map<int, Saved> saved_;
  int signal_;
};

}  // namespace raytrain::detail
