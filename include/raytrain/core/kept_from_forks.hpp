// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <mutex>
#include <set>
#include <utility>

namespace raytrain::detail {

/// Keeps an open file from processes that are forked while it lives: in them its number stands for /dev/null. A lock
/// would otherwise be held, and a connection stay open, until the last of them ends. Not covered: a fork between
/// the opening of the file and this.
///
/// Threads: any.
class KeptFromForks {
 public:
  KeptFromForks() = default;
  explicit KeptFromForks(int file) : file_{file} {
    [[maybe_unused]] static int const registered = pthread_atfork(&lock, &unlock, &replace_in_child);
    std::lock_guard const guard{mutex_};
    files_.insert(file_);
  }
  KeptFromForks(KeptFromForks&& other) noexcept : file_{std::exchange(other.file_, -1)} {}
  auto operator=(KeptFromForks&& other) noexcept -> KeptFromForks& {
    std::swap(file_, other.file_);
    return *this;
  }
  ~KeptFromForks() {
    if (file_ < 0) return;
    std::lock_guard const guard{mutex_};
    files_.erase(files_.find(file_));
  }

 private:
  static void lock() { mutex_.lock(); }
  static void unlock() { mutex_.unlock(); }
  static void replace_in_child() {
    auto const nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    for (auto const file : files_) {
      if (nothing < 0 || ::dup2(nothing, file) < 0) ::close(file);
    }
    if (nothing >= 0) ::close(nothing);
    mutex_.unlock();
  }

  static inline std::mutex mutex_;
  static inline std::multiset<int> files_;  // one number more than once, while what had it is exchanged
  int file_ = -1;
};

}  // namespace raytrain::detail
