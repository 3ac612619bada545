// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <utility>

#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/data/data_paths.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/dataset_blocks.hpp>
#include <raytrain/data/detail/libsvm_table.hpp>
#include <raytrain/data/detail/table_of_lines.hpp>
#include <raytrain/data/libsvm.hpp>

namespace raytrain {

RAYTRAIN_INLINE auto read_libsvm(DataPaths const& paths, LibsvmOptions const& options) -> Dataset {
  return detail::table_of_lines<detail::LibsvmTable>(paths, options);
}

RAYTRAIN_INLINE auto libsvm_blocks(DataPaths const& paths, LibsvmOptions options, std::size_t rows) -> DatasetBlocks {
  if (!options.features || !options.zero_based) {
    throw Error{Errc::invalid_config,
                fmt::format("LibsvmOptions::{} of libsvm_blocks", options.features ? "zero_based" : "features"),
                "is not set, and a block does not know the indices of the next ones", "set it"};
  }
  auto format = fmt::format("LIBSVM, {} features from {} on, {} where absent", *options.features,
                            *options.zero_based ? 0 : 1, options.absent);
  return detail::blocks_of_lines<detail::LibsvmTable>(
      paths, std::move(options), {.function = "libsvm_blocks", .format = std::move(format), .rows = rows});
}

}  // namespace raytrain
