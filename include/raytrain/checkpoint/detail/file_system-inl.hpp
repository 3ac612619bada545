// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>

#include <raytrain/checkpoint/detail/file_system.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE auto io_remedy(int error_number) -> std::string {
  switch (error_number) {
    case ENOSPC:
    case EDQUOT:
      return "free space there, keep fewer checkpoints (CheckpointConfig::num_to_keep), or choose a "
             "RunConfig::storage_path on another disk";
    case EROFS: return "it is mounted read-only: choose a RunConfig::storage_path that can be written to";
    case EACCES:
    case EPERM: return "give this user the right to read and write there, or choose another RunConfig::storage_path";
    case ENOENT: return "it was removed or renamed: leave a run's folder alone while the run uses it";
    case EIO: return "the disk itself reports a fault: look at the system's log, and move the run to another disk";
    case ESTALE: return "the file server has lost sight of it: see that its disk is mounted, and start again";
    case EMFILE:
    case ENFILE: return "too many files are open: raise the limit (ulimit -n)";
    default: return "see that the path lies on a disk that works and that this user may write to";
  }
}

RAYTRAIN_INLINE auto io_error(std::string const& attempted, std::filesystem::path const& path, int error_number)
    -> Error {
  return Error{
      Errc::io, attempted + " '" + path.string() + "'",
      "failed: " + std::generic_category().message(error_number) + " (errno " + std::to_string(error_number) + ")",
      io_remedy(error_number)};
}

RAYTRAIN_INLINE auto FileSystem::create(std::filesystem::path const& path) -> int {
  return ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
}

RAYTRAIN_INLINE auto FileSystem::write(int file, BytesView bytes) -> ::ssize_t {
  return ::write(file, bytes.data(), bytes.size());
}

RAYTRAIN_INLINE auto FileSystem::set_direct(int file, bool direct) -> int {
  auto const flags = ::fcntl(file, F_GETFL);
  return flags < 0 ? flags : ::fcntl(file, F_SETFL, direct ? flags | O_DIRECT : flags & ~O_DIRECT);
}

RAYTRAIN_INLINE auto FileSystem::rename(std::filesystem::path const& from, std::filesystem::path const& to) -> int {
  return std::rename(from.c_str(), to.c_str());
}

RAYTRAIN_INLINE auto FileSystem::make_directory(std::filesystem::path const& path) -> int {
  return ::mkdir(path.c_str(), 0777);
}

RAYTRAIN_INLINE auto FileSystem::remove_directory(std::filesystem::path const& path) -> int {
  return ::rmdir(path.c_str());
}

RAYTRAIN_INLINE auto FileSystem::free_bytes(std::filesystem::path const& folder) -> std::optional<std::uint64_t> {
  struct ::statvfs disk {};
  if (::statvfs(folder.c_str(), &disk) != 0 || disk.f_blocks == 0) return std::nullopt;  // 0: it keeps no count
  return std::uint64_t{disk.f_bavail} * disk.f_frsize;
}

RAYTRAIN_INLINE auto system_files() -> FileSystem& {
  static FileSystem files;
  return files;
}

}  // namespace raytrain::detail
