// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
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

RAYTRAIN_INLINE void replace_whole_file(std::filesystem::path const& file, BytesView content) {
  try {
    detail::replace_file(detail::system_files(), std::filesystem::absolute(file), text_of(content));
  } catch (Error const& error) {  // what it says to do is for files of a run
    throw Error{error.code(), error.attempted(), error.happened(), "name a file that can be written"};
  }
}

}  // namespace raytrain
