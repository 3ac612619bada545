// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <raytrain/checkpoint/detail/durable_files.hpp>
#include <raytrain/checkpoint/detail/file_system.hpp>
#include <raytrain/checkpoint/detail/read_file.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/file_descriptor.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/xxh3.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE void sync(FileSystem& files, FileDescriptor const& file, std::filesystem::path const& path) {
  while (files.sync(file.get()) != 0) {
    if (errno != EINTR) throw io_error("making durable", path, errno);
  }
}

RAYTRAIN_INLINE void sync_directory(FileSystem& files, std::filesystem::path const& directory) {
  FileDescriptor const file{::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (!file.is_open()) throw io_error("opening", directory, errno);
  sync(files, file, directory);
}

RAYTRAIN_INLINE auto write_file(FileSystem& files, std::filesystem::path const& path, BytesView content)
    -> std::string {
  constexpr std::size_t piece_bytes = 1U << 20U;  // small enough that hashing leaves it in the cache for the write
  FileDescriptor const file{files.create(path)};
  if (!file.is_open()) throw io_error("creating", path, errno);
  Xxh3 hash;
  while (!content.empty()) {
    auto piece = content.first(std::min(content.size(), piece_bytes));
    content = content.subspan(piece.size());
    hash.update(piece);
    while (!piece.empty()) {
      auto const written = files.write(file.get(), piece);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) throw io_error("writing", path, errno);
      // A disk that takes nothing and gives no reason would keep this loop for ever.
      if (written == 0) throw io_error("writing", path, ENOSPC);
      piece = piece.subspan(static_cast<std::size_t>(written));
    }
  }
  sync(files, file, path);
  return hash.hex();
}

RAYTRAIN_INLINE void rename(FileSystem& files, std::filesystem::path const& from, std::filesystem::path const& to) {
  if (files.rename(from, to) != 0) throw io_error("renaming to '" + to.string() + "'", from, errno);
}

RAYTRAIN_INLINE auto make_directory(FileSystem& files, std::filesystem::path const& directory) -> bool {
  if (files.make_directory(directory) == 0) return true;
  if (errno != EEXIST) throw io_error("creating", directory, errno);
  return false;
}

RAYTRAIN_INLINE auto missing_directories(std::filesystem::path directory) -> std::vector<std::filesystem::path> {
  std::vector<std::filesystem::path> missing;
  while (type_of(directory) == std::filesystem::file_type::not_found && directory.has_relative_path()) {
    missing.push_back(directory);
    directory = directory.parent_path();
  }
  std::ranges::reverse(missing);
  return missing;
}

RAYTRAIN_INLINE void remove_file(FileSystem& files, std::filesystem::path const& path) {
  if (files.remove_file(path) != 0 && errno != ENOENT) throw io_error("removing", path, errno);
}

RAYTRAIN_INLINE auto entries_in(std::filesystem::path const& directory) -> std::vector<std::string> {
  std::vector<std::string> names;
  std::error_code problem;
  for (std::filesystem::directory_iterator entry{directory, problem}, end; !problem && entry != end;
       entry.increment(problem)) {
    names.push_back(entry->path().filename().string());
  }
  if (problem && problem != std::errc::no_such_file_or_directory) throw io_error("listing", directory, problem.value());
  return names;
}

RAYTRAIN_INLINE void remove_tree(FileSystem& files, std::filesystem::path const& directory) {
  std::error_code ignored;
  if (std::filesystem::is_symlink(directory, ignored)) {
    remove_file(files, directory);
    return;
  }
  for (auto const& name : entries_in(directory)) {
    auto const path = directory / name;
    if (std::filesystem::symlink_status(path, ignored).type() == std::filesystem::file_type::directory) {
      remove_tree(files, path);
    } else {
      remove_file(files, path);
    }
  }
  if (files.remove_directory(directory) != 0 && errno != ENOENT) throw io_error("removing", directory, errno);
}

RAYTRAIN_INLINE void try_remove_tree(FileSystem& files, std::filesystem::path const& directory) noexcept {
  try {
    remove_tree(files, directory);
  } catch (...) {
  }
}

RAYTRAIN_INLINE void replace_file(FileSystem& files, std::filesystem::path const& path, std::string_view text) {
  auto const draft = std::filesystem::path{path.string() + ".tmp"};
  remove_file(files, draft);
  try {
    (void)write_file(files, draft, bytes_of(text));
    rename(files, draft, path);
  } catch (Error const&) {
    (void)files.remove_file(draft);
    throw;
  }
  sync_directory(files, path.parent_path());
}

}  // namespace raytrain::detail
