// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <utility>

namespace raytrain {

/// Owns an open file; -1 is none.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int value) noexcept : value_{value} {}
  FileDescriptor(FileDescriptor&& other) noexcept : value_{std::exchange(other.value_, -1)} {}
  auto operator=(FileDescriptor&& other) noexcept -> FileDescriptor& {
    std::swap(value_, other.value_);
    return *this;
  }
  ~FileDescriptor() {
    if (is_open()) ::close(value_);
  }

  [[nodiscard]] auto is_open() const noexcept -> bool { return value_ >= 0; }
  [[nodiscard]] auto get() const noexcept -> int { return value_; }

 private:
  int value_ = -1;
};

}  // namespace raytrain
