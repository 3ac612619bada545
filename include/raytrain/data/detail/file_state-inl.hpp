// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include <raytrain/core/bytes.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/xxh3.hpp>
#include <raytrain/data/detail/data_file.hpp>
#include <raytrain/data/detail/file_state.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE FileState::FileState(std::filesystem::path path) : path_{std::move(path)} {
  struct ::stat status {};
  if (::stat(path_.c_str(), &status) != 0) {
    auto const code = errno;
    auto const attempted = fmt::format("read '{}'", path_.string());
    if (code == ENOENT || code == ENOTDIR) {
      throw Error{Errc::not_found, attempted, "there is no such file; " + neighbours(path_), "check the path"};
    }
    throw Error{Errc::io, attempted, std::generic_category().message(code), "check its permissions"};
  }
  device_ = status.st_dev;
  number_ = status.st_ino;
  size_bytes_ = static_cast<std::uint64_t>(status.st_size);
  seconds_ = status.st_mtim.tv_sec;
  nanoseconds_ = status.st_mtim.tv_nsec;
}

RAYTRAIN_INLINE auto FileState::time_text() const -> std::string {
  return fmt::format("{}.{:09}", seconds_, nanoseconds_);
}

RAYTRAIN_INLINE void FileState::check() const {
  FileState const now{path_};
  if (now.device_ == device_ && now.number_ == number_ && now.size_bytes_ == size_bytes_ && now.seconds_ == seconds_ &&
      now.nanoseconds_ == nanoseconds_) {
    return;
  }
  throw Error{Errc::io, fmt::format("read '{}'", path_.string()),
              fmt::format("it was changed meanwhile: it had {} bytes, of {}, and has {}, of {}", size_bytes_,
                          time_text(), now.size_bytes_, now.time_text()),
              "begin anew once nobody writes it"};
}

RAYTRAIN_INLINE void read_unchanged(std::filesystem::path const& path, std::function<void()> const& read) {
  FileState const before{path};
  try {
    read();
  } catch (Error const&) {
    before.check();  // else the error would be told as one of the rows
    throw;
  }
  before.check();
}

RAYTRAIN_INLINE auto files_text(std::span<FileState const> files) -> std::string {
  std::uint64_t bytes = 0;
  std::string all;
  for (auto const& file : files) {
    bytes += file.size_bytes();
    all += fmt::format("{} {} {}\n", std::filesystem::weakly_canonical(file.path()).string(), file.size_bytes(),
                       file.time_text());
  }
  return fmt::format("{} {} of {} bytes, whose paths, order, sizes and times give {}", files.size(),
                     files.size() == 1 ? "file" : "files", bytes, xxh3_of(bytes_of(all)).substr(0, 16));
}

}  // namespace raytrain::detail
