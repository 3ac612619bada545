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

#include <raytrain/checkpoint/detail/file_descriptor.hpp>
#include <raytrain/checkpoint/detail/io_error.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/host_name.hpp>

namespace raytrain::detail {

/// Keeps a directory to one process, by a lock on a file in it that the system drops when the process ends, however it
/// ends. The file stays and says who holds or held the lock.
class DirectoryLock {
 public:
  /// Errors: `invalid_call` when somebody holds it, with process and host; `io`, and then no new file is left.
  explicit DirectoryLock(std::filesystem::path const& file) {
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

  /// Whether the file was not there before. Then its owner may remove it.
  [[nodiscard]] auto is_new() const noexcept -> bool { return is_new_; }

 private:
  void open(std::filesystem::path const& file) {
    file_ = FileDescriptor{::open(file.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666)};
    is_new_ = file_.is_open();
    if (!is_new_ && errno == EEXIST) file_ = FileDescriptor{::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)};
    if (!file_.is_open()) throw io_error("opening", file, errno);
  }

  void lock(std::filesystem::path const& file) {
    while (::flock(file_.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EINTR) continue;
      if (errno != EWOULDBLOCK) throw io_error("locking", file, errno);
      throw Error{Errc::invalid_call, "opening the run in '" + file.parent_path().string() + "'",
                  "it is in use by " + holder(), "wait for that to end, or choose another RunConfig::name"};
    }
  }

  [[nodiscard]] auto is_linked() const -> bool {
    struct ::stat status {};
    return ::fstat(file_.get(), &status) != 0 || status.st_nlink > 0;
  }

  [[nodiscard]] auto holder() const -> std::string {
    std::array<char, 512> text{};
    auto const length = ::pread(file_.get(), text.data(), text.size(), 0);
    // It locks first and then writes its name.
    if (length <= 1) return "a process that is just starting";
    return {text.data(), static_cast<std::size_t>(length) - 1};
  }

  FileDescriptor file_;
  bool is_new_ = false;
};

}  // namespace raytrain::detail
