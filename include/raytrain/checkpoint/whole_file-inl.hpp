// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <system_error>
#include <utility>

#include <raytrain/checkpoint/detail/durable_files.hpp>
#include <raytrain/checkpoint/detail/file_system.hpp>
#include <raytrain/checkpoint/detail/read_file.hpp>
#include <raytrain/checkpoint/whole_file.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain {

RAYTRAIN_INLINE auto view_whole_file(std::filesystem::path const& file) -> SharedBytes {
  auto mapping = detail::InputFile{file}.map();
  return mapping ? *std::move(mapping) : SharedBytes{detail::read_file(file)};
}

namespace detail {

/// The file that a link names at last, which need not be there, or what is no link.
RAYTRAIN_INLINE auto behind_links(std::filesystem::path file) -> std::filesystem::path {
  constexpr int most = 40;  // as many as Linux follows
  std::error_code ignored;
  for (int links = 0; links < most && std::filesystem::is_symlink(file, ignored); ++links) {
    file = file.parent_path() / std::filesystem::read_symlink(file, ignored);
  }
  return file;
}

}  // namespace detail

RAYTRAIN_INLINE void replace_whole_file(std::filesystem::path const& file, BytesView content) {
  auto const path = detail::behind_links(std::filesystem::absolute(file));
  std::error_code ignored;
  if (std::filesystem::is_other(path, ignored) || std::filesystem::is_symlink(path, ignored)) {
    throw Error{Errc::io, "writing '" + file.string() + "'", "it is not a regular file",
                "name a file that can be written"};
  }
  try {
    detail::replace_file(detail::system_files(), path, text_of(content));
  } catch (Error const& error) {  // what it says to do is for files of a run
    throw Error{error.code(), error.attempted(), error.happened(), "name a file that can be written"};
  }
}

}  // namespace raytrain
