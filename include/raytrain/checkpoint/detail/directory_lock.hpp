// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include <raytrain/core/file_descriptor.hpp>

namespace raytrain::detail {

/// Keeps a directory to one process by two locks, on the directory and on a file in it. The system drops both when the
/// process ends, however it ends. The file stays and says who holds or held the lock.
///
/// The first lock holds even if somebody removes the file; the second one also works between hosts.
class DirectoryLock {
 public:
  /// Errors: `invalid_call` when somebody holds it, with process and host; `io`, and then no new file is left.
  explicit DirectoryLock(std::filesystem::path const& file);

  /// Whether `path` leads to the directory that is locked, and not to one that has taken its place. Threads: any.
  [[nodiscard]] auto is_at(std::filesystem::path const& path) const -> bool;

  /// Whether the file was not there before. Then its owner may remove it.
  [[nodiscard]] auto is_new() const noexcept -> bool { return is_new_; }

 private:
  void lock_directory(std::filesystem::path const& file);

  void open(std::filesystem::path const& file);

  void lock(std::filesystem::path const& file);

  // 0, or the cause.
  [[nodiscard]] static auto try_lock(FileDescriptor const& file) -> int;

  [[noreturn]] static void refuse(std::filesystem::path const& file);

  [[nodiscard]] auto is_linked() const -> bool;

  [[nodiscard]] static auto holder(std::filesystem::path const& path) -> std::string;

  FileDescriptor directory_;
  FileDescriptor file_;
  KeptFromForks directory_here_;
  KeptFromForks file_here_;
  bool is_new_ = false;
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/checkpoint/detail/directory_lock-inl.hpp>
#endif
