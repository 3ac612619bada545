// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <raytrain/checkpoint/detail/directory_files.hpp>
#include <raytrain/checkpoint/detail/file_system.hpp>
#include <raytrain/checkpoint/detail/read_file.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE void DirectoryFiles::check_there() const {
  auto const type = type_of(directory_);
  if (type == std::filesystem::file_type::directory) return;
  throw Error{Errc::not_found, attempted(),
              type == std::filesystem::file_type::not_found ? "there is no such directory" : "it is not a directory",
              "if it was there before, it was moved, removed, or beyond CheckpointConfig::num_to_keep"};
}

RAYTRAIN_INLINE auto DirectoryFiles::list() const -> std::vector<FileEntry> {
  check_there();
  std::vector<FileEntry> files;
  try {
    for (auto const& entry : std::filesystem::recursive_directory_iterator{directory_}) {
      if (!entry.is_regular_file()) continue;
      files.push_back({entry.path().lexically_relative(directory_).generic_string(), entry.file_size(), {}});
    }
  } catch (std::filesystem::filesystem_error const& error) {
    throw io_error("listing", directory_, error.code().value());
  }
  std::ranges::sort(files, {}, &FileEntry::name);
  return files;
}

RAYTRAIN_INLINE auto DirectoryFiles::size_of(std::string const& name) const -> std::optional<std::uint64_t> {
  auto const type = type_of(directory_ / name);
  if (type == std::filesystem::file_type::not_found) return std::nullopt;
  if (type != std::filesystem::file_type::regular) refuse(name, "is not a regular file");
  return InputFile{directory_ / name}.size_bytes();
}

RAYTRAIN_INLINE auto DirectoryFiles::read(std::string const& name) const -> Bytes {
  return read_file(directory_ / name);
}

RAYTRAIN_INLINE auto DirectoryFiles::view(std::string const& name) const -> SharedBytes {
  auto mapping = InputFile{directory_ / name}.map();
  return mapping ? *std::move(mapping) : CheckpointFiles::view(name);
}

RAYTRAIN_INLINE auto DirectoryFiles::xxh3_of(std::string const& name) const -> std::string {
  return xxh3_of_file(directory_ / name);
}

}  // namespace raytrain::detail
