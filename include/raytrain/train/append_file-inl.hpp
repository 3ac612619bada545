// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include <raytrain/core/error.hpp>
#include <raytrain/core/file_descriptor.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/train/append_file.hpp>

namespace raytrain {

RAYTRAIN_INLINE AppendFile::AppendFile(std::filesystem::path path) : path_{std::filesystem::absolute(path)} {
  file_ = FileDescriptor{::open(path_.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666)};
  if (!file_.is_open()) refuse("opening");
  struct stat status {};
  if (::fstat(file_.get(), &status) != 0) refuse("reading");
  size_bytes_ = static_cast<std::size_t>(status.st_size);
  char last = '\n';
  if (size_bytes_ > 0 && ::pread(file_.get(), &last, 1, status.st_size - 1) != 1) refuse("reading");
  if (last != '\n') write_line("");
}

RAYTRAIN_INLINE void AppendFile::finish() {
  struct stat open {};
  struct stat found {};
  auto const lasts = ::fstat(file_.get(), &open) != 0 || !S_ISREG(open.st_mode) ||
                     (::stat(path_.c_str(), &found) == 0 && open.st_dev == found.st_dev &&
                      open.st_ino == found.st_ino && static_cast<std::size_t>(open.st_size) >= size_bytes_);
  file_ = FileDescriptor{};
  if (lasts) return;
  throw Error{Errc::io, "completing " + path_.string(), "it was removed, replaced or cut while lines were added to it",
              "leave it alone while the run trains; what is gone of it is nowhere else"};
}

RAYTRAIN_INLINE void AppendFile::clear() noexcept {
  if (::ftruncate(file_.get(), 0) != 0) return;
  size_bytes_ = 0;
  is_cut_ = false;
}

RAYTRAIN_INLINE void AppendFile::write_line(std::string_view line) {
  buffer_.assign(is_cut_ ? "\n" : "");
  buffer_ += line;
  buffer_ += '\n';
  for (std::string_view rest{buffer_}; !rest.empty();) {
    auto const written = ::write(file_.get(), rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written == 0) errno = ENOSPC;  // which would keep this loop for ever
    if (written <= 0) refuse("writing");
    rest.remove_prefix(static_cast<std::size_t>(written));
    size_bytes_ += static_cast<std::size_t>(written);
    is_cut_ = !rest.empty();
  }
}

RAYTRAIN_INLINE void AppendFile::refuse(std::string_view what) const {
  auto const reason = std::string{std::strerror(errno)};
  throw Error{Errc::io, std::string{what} + " " + path_.string(), reason,
              "make room or grant access, then start the run again"};
}

}  // namespace raytrain
