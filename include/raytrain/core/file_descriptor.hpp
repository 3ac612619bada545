// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <mutex>
#include <set>
#include <utility>

namespace raytrain {

/// Owns an open file; -1 is none.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int value) noexcept : value_{value} {}
  FileDescriptor(FileDescriptor&& other) noexcept : value_{std::exchange(other.value_, -1)} {}
  auto operator=(FileDescriptor&& other) noexcept -> FileDescriptor&;
  ~FileDescriptor();

  [[nodiscard]] auto is_open() const noexcept -> bool { return value_ >= 0; }
  [[nodiscard]] auto get() const noexcept -> int { return value_; }

  /// It is the caller's from now on.
  [[nodiscard]] auto release() noexcept -> int { return std::exchange(value_, -1); }

 private:
  int value_ = -1;
};

}  // namespace raytrain

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

/// Another number in a process that was forked since, without exec. What was made under another one is the parent's:
/// the child has a copy of it, and none of its threads.
///
/// Threads: any.
[[nodiscard]] auto fork_generation() noexcept -> std::uint32_t;

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/core/file_descriptor-inl.hpp>
#endif
