// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include <raytrain/core/usable_cores.hpp>
#include <raytrain/data/data_paths.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/detail/file_state.hpp>
#include <raytrain/data/detail/join_rows.hpp>
#include <raytrain/data/detail/made_in_order.hpp>

namespace raytrain::detail {

/// The rows of all files in their order, each of which `read_file(path, threads)` makes a dataset of.
///
/// Threads: calls `read_file` in as many as there are cores, for a file each; its `threads` are the cores for this one.
///          An error is told when those that are being read are.
/// Errors: those of `DataPaths::files` and of `read_file`, of several files the first one's; `io` for a file that was
///         changed while it was read; `invalid_data` for one whose columns are others than the first one's.
/// Cost: the rows of several files are copied once.
template <class ReadFile>
[[nodiscard]] auto read_each(DataPaths const& paths, ReadFile const& read_file) -> Dataset {
  auto const files = paths.files();
  auto const cores = static_cast<int>(usable_core_count());
  auto const cores_of_each = static_cast<int>(std::max<std::size_t>(1, usable_core_count() / files.size()));
  auto const read = [&](std::size_t i) -> Dataset {
    Dataset rows;
    read_unchanged(files[i], [&] { rows = read_file(files[i], cores_of_each); });
    return rows;
  };
  std::vector<std::string> names;
  for (auto const& file : files) names.push_back(fmt::format("file '{}'", file.string()));
  auto const parts = made_in_order<Dataset>(files.size(), cores, read);
  return join_rows(parts, fmt::format("read {} files", files.size()), names);
}

}  // namespace raytrain::detail
