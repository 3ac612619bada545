// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <future>
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

/// Writes to the end of a new file.
class FileWriter {
 public:
  FileWriter(FileSystem& files, std::filesystem::path const& path)
      : files_{files}, path_{path}, file_{files.create(path)} {
    if (!file_.is_open()) throw io_error("creating", path_, errno);
  }

  void write(BytesView bytes) {
    while (!bytes.empty()) {
      auto const written = files_.write(file_.get(), bytes);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0 && errno == EINVAL && is_direct_) {
        set_direct(false);  // not of this memory, or not here
        continue;
      }
      if (written < 0) throw io_error("writing", path_, errno);
      // A disk that takes nothing and gives no reason would keep this loop for ever.
      if (written == 0) throw io_error("writing", path_, ENOSPC);
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
  }

  /// As `FileSystem::set_direct`. Returns whether the file takes it.
  auto set_direct(bool direct) -> bool {
    if (is_direct_ == direct) return true;
    if (files_.set_direct(file_.get(), direct) != 0) {
      if (direct) return false;
      throw io_error("writing", path_, errno);
    }
    is_direct_ = direct;
    return true;
  }

  void sync() { detail::sync(files_, file_, path_); }

 private:
  FileSystem& files_;
  std::filesystem::path const& path_;
  FileDescriptor file_;
  bool is_direct_ = false;
};

/// Takes bytes past the cache to a file, as far as they are whole blocks, while another thread hashes them. Returns the
/// rest.
RAYTRAIN_INLINE auto write_blocks(FileWriter& file, Xxh3& hash, BytesView content) -> BytesView {
  constexpr std::size_t block_bytes = 4096;
  constexpr std::size_t piece_bytes = 16U << 20U;
  constexpr std::size_t least_bytes = 4U << 20U;  // of less the copy does not count
  auto const is_aligned = reinterpret_cast<std::uintptr_t>(content.data()) % block_bytes == 0;
  if (content.size() < least_bytes || !is_aligned || !file.set_direct(true)) return content;
  auto const blocks = content.first(content.size() / block_bytes * block_bytes);
  auto hashing = std::async([&] { hash.update(blocks); });
  for (auto left = blocks; !left.empty();) {
    auto const piece = left.first(std::min(left.size(), piece_bytes));
    file.write(piece);
    left = left.subspan(piece.size());
  }
  hashing.get();
  file.set_direct(false);
  return content.subspan(blocks.size());
}

RAYTRAIN_INLINE auto write_file(FileSystem& files, std::filesystem::path const& path, BytesView content)
    -> std::string {
  constexpr std::size_t piece_bytes = 1U << 20U;  // small enough that hashing leaves it in the cache for the write
  FileWriter file{files, path};
  Xxh3 hash;
  content = write_blocks(file, hash, content);
  while (!content.empty()) {
    auto const piece = content.first(std::min(content.size(), piece_bytes));
    hash.update(piece);
    file.write(piece);
    content = content.subspan(piece.size());
  }
  file.sync();
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
