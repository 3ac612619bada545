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

#include <raytrain/checkpoint/detail/io_error.hpp>
#include <raytrain/checkpoint/detail/read_file.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/file_descriptor.hpp>
#include <raytrain/core/host_name.hpp>
#include <raytrain/core/kept_from_forks.hpp>

namespace raytrain::detail {

/// Keeps a directory to one process by two locks, on the directory and on a file in it. The system drops both when the
/// process ends, however it ends. The file stays and says who holds or held the lock.
///
/// The first lock holds even if somebody removes the file; the second one also works between hosts.
class DirectoryLock {
 public:
  /// Errors: `invalid_call` when somebody holds it, with process and host; `io`, and then no new file is left.
  explicit DirectoryLock(std::filesystem::path const& file) {
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

  /// Whether `path` leads to the directory that is locked, and not to one that has taken its place. Threads: any.
  [[nodiscard]] auto is_at(std::filesystem::path const& path) const -> bool {
    struct ::stat locked {};
    struct ::stat found {};
    return ::fstat(directory_.get(), &locked) == 0 && ::stat(path.c_str(), &found) == 0 &&
           locked.st_dev == found.st_dev && locked.st_ino == found.st_ino;
  }

  /// Whether the file was not there before. Then its owner may remove it.
  [[nodiscard]] auto is_new() const noexcept -> bool { return is_new_; }

 private:
  void lock_directory(std::filesystem::path const& file) {
    directory_ = FileDescriptor{::open(file.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    if (!directory_.is_open()) throw io_error("opening", file.parent_path(), errno);
    directory_here_ = KeptFromForks{directory_.get()};
    // Not every file system has locks for directories; then the file's must do.
    if (try_lock(directory_) == EWOULDBLOCK) refuse(file);
  }

  void open(std::filesystem::path const& file) {
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

  void lock(std::filesystem::path const& file) {
    auto const problem = try_lock(file_);
    if (problem == EWOULDBLOCK) refuse(file);
    if (problem != 0) throw io_error("locking", file, problem);
  }

  // 0, or the cause.
  [[nodiscard]] static auto try_lock(FileDescriptor const& file) -> int {
    while (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EINTR) return errno;
    }
    return 0;
  }

  [[noreturn]] static void refuse(std::filesystem::path const& file) {
    throw Error{Errc::invalid_call, "opening the run in '" + file.parent_path().string() + "'",
                "it is in use by " + holder(file), "wait for that to end, or choose another RunConfig::name"};
  }

  [[nodiscard]] auto is_linked() const -> bool {
    struct ::stat status {};
    return ::fstat(file_.get(), &status) != 0 || status.st_nlink > 0;
  }

  [[nodiscard]] static auto holder(std::filesystem::path const& path) -> std::string {
    FileDescriptor const file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
    if (!file.is_open()) return "another process, whose file '" + path.string() + "' is gone";
    std::array<char, 512> text{};
    auto const length = ::pread(file.get(), text.data(), text.size(), 0);
    // It locks first and then writes its name.
    if (length <= 1) return "a process that is just starting";
    return {text.data(), static_cast<std::size_t>(length) - 1};
  }

  FileDescriptor directory_;
  FileDescriptor file_;
  KeptFromForks directory_here_;
  KeptFromForks file_here_;
  bool is_new_ = false;
};

}  // namespace raytrain::detail
