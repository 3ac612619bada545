// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <raytrain/core/bytes.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/utf8.hpp>
#include <raytrain/core/xxh3.hpp>
#include <raytrain/data/data_paths.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/dataset_blocks.hpp>
#include <raytrain/data/detail/file_blocks.hpp>
#include <raytrain/data/detail/file_state.hpp>
#include <raytrain/message/json.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE auto exact_text(std::string const& name) -> std::string {
  return is_utf8(name) ? json_string(name) : json_string(name) + " of the bytes " + xxh3_of(bytes_of(name));
}

/// The next block of a file. What is wrong in one that was changed meanwhile is that it was changed.
[[nodiscard]] RAYTRAIN_INLINE auto next_block(FileBlocksOptions const& options, FileState const& file, bool begins)
    -> std::optional<Dataset> {
  std::optional<Dataset> block;
  try {
    block = options.next(file.path(), begins);
  } catch (Error const&) {
    file.check();
    throw;
  }
  file.check();
  return block;
}

RAYTRAIN_INLINE auto file_blocks(DataPaths const& paths, FileBlocksOptions options) -> DatasetBlocks {
  if (options.rows == 0) {
    throw Error{Errc::invalid_call, options.function, "blocks of 0 rows", "write 65'536, or any other number"};
  }
  std::vector<FileState> files;
  for (auto const& path : paths.files()) files.emplace_back(path);
  auto source = fmt::format("{} in blocks of {} rows, {}", options.format, options.rows, files_text(files));
  auto check = [files] {
    for (auto const& file : files) file.check();
  };
  auto next = [files = std::move(files), options = std::move(options), at = std::size_t{0},
               begins = true]() mutable -> std::optional<Dataset> {
    for (; at < files.size(); ++at, begins = true) {
      if (begins) files[at].check();
      auto block = next_block(options, files[at], std::exchange(begins, false));
      if (block) return block;
    }
    if (options.finish) options.finish();
    return std::nullopt;
  };
  return {std::move(source), std::move(next), std::move(check)};
}

}  // namespace raytrain::detail
