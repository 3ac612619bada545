// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>

#include <raytrain/core/bytes.hpp>
#include <raytrain/core/error.hpp>

namespace raytrain::detail {

[[nodiscard]] auto io_remedy(int error_number) -> std::string;

/// The error for a system call on `path` that failed and left `error_number` in errno.
[[nodiscard]] auto io_error(std::string const& attempted, std::filesystem::path const& path, int error_number) -> Error;

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
  [[nodiscard]] virtual auto create(std::filesystem::path const& path) -> int;
  [[nodiscard]] virtual auto write(int file, BytesView bytes) -> ::ssize_t;
  /// Turns O_DIRECT on or off. With it writes go past the system's cache, which saves a copy, and take whole blocks of
  /// 4096 bytes alone, in memory and in the file. Not every file system does so.
  [[nodiscard]] virtual auto set_direct(int file, bool direct) -> int;
  [[nodiscard]] virtual auto sync(int file) -> int { return ::fsync(file); }
  [[nodiscard]] virtual auto rename(std::filesystem::path const& from, std::filesystem::path const& to) -> int;
  [[nodiscard]] virtual auto make_directory(std::filesystem::path const& path) -> int;
  [[nodiscard]] virtual auto remove_file(std::filesystem::path const& path) -> int { return ::unlink(path.c_str()); }
  [[nodiscard]] virtual auto remove_directory(std::filesystem::path const& path) -> int;
  /// What this user may still write to the disk of a folder; none where that is not known.
  [[nodiscard]] virtual auto free_bytes(std::filesystem::path const& folder) -> std::optional<std::uint64_t>;
};

/// The operating system's own.
[[nodiscard]] auto system_files() -> FileSystem&;

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/checkpoint/detail/file_system-inl.hpp>
#endif
