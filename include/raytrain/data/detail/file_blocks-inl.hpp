// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/data/data_paths.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/dataset_blocks.hpp>
#include <raytrain/data/detail/file_blocks.hpp>
#include <raytrain/data/detail/file_state.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE auto file_blocks(DataPaths const& paths, FileBlocksOptions options) -> DatasetBlocks {
  if (options.rows == 0) {
    throw Error{Errc::invalid_call, options.function, "blocks of 0 rows", "write 65'536, or any other number"};
  }
  std::vector<FileState> files;
  for (auto const& path : paths.files()) files.emplace_back(path);
  auto source = fmt::format("{} in blocks of {} rows, {}", options.format, options.rows, files_text(files));
  return {std::move(source),
          [files = std::move(files), next = std::move(options.next), at = std::size_t{0},
           begins = true]() mutable -> std::optional<Dataset> {
            for (; at < files.size(); ++at, begins = true) {
              if (begins) files[at].check();
              auto block = next(files[at].path(), std::exchange(begins, false));
              files[at].check();
              if (block) return block;
            }
            return std::nullopt;
          }};
}

}  // namespace raytrain::detail
