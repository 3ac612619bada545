// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <string>

#include <raytrain/checkpoint/detail/directory_lock.hpp>
#include <raytrain/checkpoint/detail/file_system.hpp>
#include <raytrain/checkpoint/detail/read_file.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/file_descriptor.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/process.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE DirectoryLock::DirectoryLock(std::filesystem::path const& file) {
  lock_directory(file);
  // A start that failed removes the file that it made; a lock on that one keeps nobody out.
  do {
    open(file);
    lock(file);
  } while (!is_linked());
  auto const mine = "process " + std::to_string(::getpid()) + " on " + host_name() + "\n";
  auto const emptied = ::ftruncate(file_.get(), 0);
  auto const written = emptied == 0 ? ::pwrite(file_.get(), mine.data(), mine.size(), 0) : -1;
  if (written == static_cast<::ssize_t>(mine.size())) return;
  auto const problem = written < 0 ? errno : ENOSPC;
  if (is_new_) (void)::unlink(file.c_str());
  throw io_error("writing", file, problem);
}

RAYTRAIN_INLINE auto DirectoryLock::is_at(std::filesystem::path const& path) const -> bool {
  struct ::stat locked {};
  struct ::stat found {};
  return ::fstat(directory_.get(), &locked) == 0 && ::stat(path.c_str(), &found) == 0 &&
         locked.st_dev == found.st_dev && locked.st_ino == found.st_ino;
}

RAYTRAIN_INLINE void DirectoryLock::lock_directory(std::filesystem::path const& file) {
  directory_ = FileDescriptor{::open(file.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (!directory_.is_open()) throw io_error("opening", file.parent_path(), errno);
  directory_here_ = KeptFromForks{directory_.get()};
  // Not every file system has locks for directories; then the file's must do.
  if (try_lock(directory_) == EWOULDBLOCK) refuse(file);
}

RAYTRAIN_INLINE void DirectoryLock::open(std::filesystem::path const& file) {
  auto const type = type_of(file);
  if (type != std::filesystem::file_type::regular && type != std::filesystem::file_type::not_found) {
    throw Error{Errc::io, "locking the run in '" + file.parent_path().string() + "'",
                "'" + file.string() + "' is not a regular file", "remove it, raytrain makes its own"};
  }
  file_ = FileDescriptor{::open(file.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666)};
  is_new_ = file_.is_open();
  if (!is_new_ && errno == EEXIST) file_ = FileDescriptor{::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)};
  if (!file_.is_open()) throw io_error("opening", file, errno);
  file_here_ = KeptFromForks{file_.get()};
}

RAYTRAIN_INLINE void DirectoryLock::lock(std::filesystem::path const& file) {
  auto const problem = try_lock(file_);
  if (problem == EWOULDBLOCK) refuse(file);
  if (problem == 0) return;
  if (is_new_) (void)::unlink(file.c_str());
  auto const failed = io_error("locking", file, problem);
  if (problem != ENOLCK && problem != ENOSYS && problem != EOPNOTSUPP) throw failed;
  throw Error{failed.code(), failed.attempted(), failed.happened(),
              "this file system has no locks: mount it with flock, or choose another RunConfig::storage_path"};
}

RAYTRAIN_INLINE auto DirectoryLock::try_lock(FileDescriptor const& file) -> int {
  while (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

RAYTRAIN_INLINE void DirectoryLock::refuse(std::filesystem::path const& file) {
  throw Error{Errc::invalid_call, "opening the run in '" + file.parent_path().string() + "'",
              "it is in use by " + holder(file), "wait for that to end, or choose another RunConfig::name"};
}

RAYTRAIN_INLINE auto DirectoryLock::is_linked() const -> bool {
  struct ::stat status {};
  return ::fstat(file_.get(), &status) != 0 || status.st_nlink > 0;
}

RAYTRAIN_INLINE auto DirectoryLock::holder(std::filesystem::path const& path) -> std::string {
  FileDescriptor const file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (!file.is_open()) return "another process, whose file '" + path.string() + "' is gone";
  std::array<char, 512> text{};
  auto const length = ::pread(file.get(), text.data(), text.size(), 0);
  // It locks first and then writes its name.
  if (length <= 1) return "a process that is just starting";
  return {text.data(), static_cast<std::size_t>(length) - 1};
}

}  // namespace raytrain::detail
