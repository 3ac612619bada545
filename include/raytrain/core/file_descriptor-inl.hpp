// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <utility>

#include <raytrain/core/file_descriptor.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain {

RAYTRAIN_INLINE auto FileDescriptor::operator=(FileDescriptor&& other) noexcept -> FileDescriptor& {
  std::swap(value_, other.value_);
  return *this;
}

RAYTRAIN_INLINE FileDescriptor::~FileDescriptor() {
  if (is_open()) ::close(value_);
}

}  // namespace raytrain

namespace raytrain::detail {

RAYTRAIN_INLINE KeptFromForks::KeptFromForks(int file) : file_{file} {
  [[maybe_unused]] static int const registered = pthread_atfork(&lock, &unlock, &replace_in_child);
  std::lock_guard const guard{mutex_};
  files_.insert(file_);
}

RAYTRAIN_INLINE auto KeptFromForks::operator=(KeptFromForks&& other) noexcept -> KeptFromForks& {
  std::swap(file_, other.file_);
  return *this;
}

RAYTRAIN_INLINE KeptFromForks::~KeptFromForks() {
  if (file_ < 0) return;
  std::lock_guard const guard{mutex_};
  files_.erase(files_.find(file_));
}

RAYTRAIN_INLINE void KeptFromForks::replace_in_child() {
  auto const nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (auto const file : files_) {
    if (nothing < 0 || ::dup3(nothing, file, O_CLOEXEC) < 0) ::close(file);
  }
  if (nothing >= 0) ::close(nothing);
  mutex_.unlock();
}

RAYTRAIN_INLINE auto fork_generation() noexcept -> std::uint32_t {
  static std::atomic<std::uint32_t> generation = 0;
  [[maybe_unused]] static int const registered = pthread_atfork(nullptr, nullptr, [] { ++generation; });
  return generation.load(std::memory_order_relaxed);
}

}  // namespace raytrain::detail
