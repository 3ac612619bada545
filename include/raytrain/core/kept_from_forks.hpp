// SPDX-License-Identifier: Apache-2.0
#pragma once

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
  explicit KeptFromForks(int file);
  KeptFromForks(KeptFromForks&& other) noexcept : file_{std::exchange(other.file_, -1)} {}
  auto operator=(KeptFromForks&& other) noexcept -> KeptFromForks&;
  ~KeptFromForks();

 private:
  static void lock() { mutex_.lock(); }
  static void unlock() { mutex_.unlock(); }
  static void replace_in_child();

  static inline std::mutex mutex_;
  static inline std::multiset<int> files_;  // one number more than once, while what had it is exchanged
  int file_ = -1;
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/core/kept_from_forks-inl.hpp>
#endif
