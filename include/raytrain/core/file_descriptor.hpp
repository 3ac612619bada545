// SPDX-License-Identifier: Apache-2.0
#pragma once

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

 private:
  int value_ = -1;
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/core/file_descriptor-inl.hpp>
#endif
