// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include <raytrain/core/bytes.hpp>

namespace raytrain::detail {

/// The system calls that change what is on disk. Tests put one in its place that fails or dies at a given step.
///
/// Every function returns what its system call returns, and leaves the cause of a failure in errno.
///
/// Threads: every function from any thread.
class FileSystem {
 public:
  FileSystem() = default;
  FileSystem(FileSystem const&) = delete;
  auto operator=(FileSystem const&) -> FileSystem& = delete;
  virtual ~FileSystem() = default;

  /// Opens for writing a file that must not be there yet.
  [[nodiscard]] virtual auto create(std::filesystem::path const& path) -> int {
    return ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  }
  [[nodiscard]] virtual auto write(int file, BytesView bytes) -> ::ssize_t {
    return ::write(file, bytes.data(), bytes.size());
  }
  [[nodiscard]] virtual auto sync(int file) -> int { return ::fsync(file); }
  [[nodiscard]] virtual auto rename(std::filesystem::path const& from, std::filesystem::path const& to) -> int {
    return std::rename(from.c_str(), to.c_str());
  }
  [[nodiscard]] virtual auto make_directory(std::filesystem::path const& path) -> int {
    return ::mkdir(path.c_str(), 0777);
  }
  [[nodiscard]] virtual auto remove_file(std::filesystem::path const& path) -> int { return ::unlink(path.c_str()); }
  [[nodiscard]] virtual auto remove_directory(std::filesystem::path const& path) -> int {
    return ::rmdir(path.c_str());
  }
};

/// The operating system's own.
[[nodiscard]] inline auto system_files() -> FileSystem& {
  static FileSystem files;
  return files;
}

}  // namespace raytrain::detail
