// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <vector>

#include <raytrain/core/usable_cores.hpp>
#include <raytrain/data/data_paths.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/detail/file_state.hpp>
#include <raytrain/data/detail/join_rows.hpp>
#include <raytrain/data/ordered_prefetch.hpp>
#include <raytrain/data/prefetch_options.hpp>

namespace raytrain::detail {

/// The rows of all files in their order, each of which `read_file` makes a dataset of.
///
/// Threads: calls `read_file` in as many as there are cores, for a file each.
/// Errors: those of `DataPaths::files` and of `read_file`, of several files the first one's; `io` for a file that was
///         changed while it was read; `invalid_data` for one whose columns are others than the first one's.
/// Cost: the rows of several files are copied once.
template <class ReadFile>
[[nodiscard]] auto read_each(DataPaths const& paths, ReadFile const& read_file) -> Dataset {
  auto const files = paths.files();
  auto const read = [&](std::size_t i) -> Dataset {
    FileState const before{files[i]};
    auto rows = read_file(files[i]);
    before.check();
    return rows;
  };
  std::vector<Dataset> parts;
  std::vector<std::string> names;
  for (auto const& file : files) names.push_back(fmt::format("file '{}'", file.string()));
  if (files.size() == 1) {
    parts.push_back(read(0));
  } else {
    PrefetchOptions const options{.threads = static_cast<int>(usable_core_count())};
    OrderedPrefetch<Dataset> reading{files.size(), options, [&](auto const& run) { run(read); }};
    while (parts.size() < files.size()) parts.push_back(reading.take());
  }
  return join_rows(parts, fmt::format("read {} files", files.size()), names);
}

}  // namespace raytrain::detail
