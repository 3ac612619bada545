// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <raytrain/core/error.hpp>
#include <raytrain/core/file_descriptor.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/data/detail/new_file.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE NewFile::NewFile(std::filesystem::path path, std::string attempted)
    : path_{std::move(path)}, attempted_{std::move(attempted)} {
  std::error_code ignored;
  constexpr auto most_links = 40;  // as many as Linux follows
  for (auto links = 0; std::filesystem::is_symlink(path_, ignored); ++links) {
    if (links == most_links) {
      throw Error{Errc::io, attempted_, std::generic_category().message(ELOOP),
                  "look where the links lead, or name the file itself"};
    }
    std::error_code problem;
    path_ = path_.parent_path() / std::filesystem::read_symlink(path_, problem);
    if (problem) refuse(problem.value());
  }
  for (std::string const compression : {"gzip", "zstd"}) {
    std::string const end = compression == "gzip" ? ".gz" : ".zst";
    if (path_.extension() != end) continue;
    throw Error{Errc::invalid_call, attempted_,
                fmt::format("its name ends in {}, and it is not compressed by {}", end, compression),
                fmt::format("leave {} out, and run {} on it", end, compression)};
  }
  if (std::filesystem::exists(path_, ignored) && !std::filesystem::is_regular_file(path_, ignored)) {
    throw Error{Errc::io, attempted_, "it is there, and no regular file", "name a file"};
  }
  static std::atomic<std::uint64_t> drafts = 0;
  do {
    draft_ = fmt::format("{}.{}-{}.tmp", path_.string(), ::getpid(), drafts++);
    file_ = FileDescriptor{::open(draft_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666)};
  } while (!file_.is_open() && errno == EEXIST);
  if (!file_.is_open()) refuse(errno);
}

RAYTRAIN_INLINE NewFile::~NewFile() {
  if (file_.is_open()) ::unlink(draft_.c_str());
}

RAYTRAIN_INLINE void NewFile::write(std::string_view text) {
  while (!text.empty()) {
    auto const written = ::write(file_.get(), text.data(), text.size());
    if (written < 0 && errno != EINTR) refuse(errno);
    if (written == 0) refuse(ENOSPC);  // which would keep this loop for ever
    if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
  }
}

RAYTRAIN_INLINE void NewFile::rewrite(std::uint64_t first, std::uint64_t bytes,
                                      std::function<void(std::span<std::byte> piece)> const& change) {
  std::vector<std::byte> buffer(static_cast<std::size_t>(std::min<std::uint64_t>(bytes, std::uint64_t{1} << 20U)));
  for (auto const end = first + bytes; first < end;) {
    auto const piece =
        std::span{buffer}.first(static_cast<std::size_t>(std::min<std::uint64_t>(end - first, buffer.size())));
    auto const each = [&](auto const& move) {
      for (std::size_t done = 0; done < piece.size();) {
        auto const count =
            move(file_.get(), piece.data() + done, piece.size() - done, static_cast<::off_t>(first + done));
        if (count < 0 && errno != EINTR) refuse(errno);
        if (count == 0) refuse(EIO);  // which would keep this loop for ever
        if (count > 0) done += static_cast<std::size_t>(count);
      }
    };
    each(::pread);
    change(piece);
    each(::pwrite);
    first += piece.size();
  }
}

RAYTRAIN_INLINE void NewFile::finish() {
  if (::fsync(file_.get()) != 0) refuse(errno);
  if (std::rename(draft_.c_str(), path_.c_str()) != 0) refuse(errno);
  file_ = FileDescriptor{};
}

RAYTRAIN_INLINE void NewFile::refuse(int code) const {
  throw Error{Errc::io, attempted_, std::generic_category().message(code),
              code == EMFILE ? "raise the limit of open files: ulimit -n"
                             : "look at the folder: whether it is there, its permissions and its free space"};
}

}  // namespace raytrain::detail
