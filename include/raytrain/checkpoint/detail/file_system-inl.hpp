// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include <raytrain/checkpoint/detail/file_system.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE auto FileSystem::create(std::filesystem::path const& path) -> int {
  return ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
}

RAYTRAIN_INLINE auto FileSystem::write(int file, BytesView bytes) -> ::ssize_t {
  return ::write(file, bytes.data(), bytes.size());
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

RAYTRAIN_INLINE auto system_files() -> FileSystem& {
  static FileSystem files;
  return files;
}

}  // namespace raytrain::detail
