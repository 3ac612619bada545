// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <optional>
#include <string>
#include <system_error>
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
/// Threads: calls `read_file` in as many as there are cores, for a file each. An error is told when those that are
///          being read are.
/// Errors: those of `DataPaths::files` and of `read_file`, of several files the first one's; `io` for a file that was
///         changed while it was read; `invalid_data` for one whose columns are others than the first one's.
/// Cost: the rows of several files are copied once.
template <class ReadFile>
[[nodiscard]] auto read_each(DataPaths const& paths, ReadFile const& read_file) -> Dataset {
  auto const files = paths.files();
  auto const read = [&](std::size_t i) -> Dataset {
    Dataset rows;
    read_unchanged(files[i], [&] { rows = read_file(files[i]); });
    return rows;
  };
  std::vector<Dataset> parts;
  std::vector<std::string> names;
  for (auto const& file : files) names.push_back(fmt::format("file '{}'", file.string()));
  std::optional<OrderedPrefetch<Dataset>> ahead;
  if (files.size() > 1) {
    PrefetchOptions const options{.threads = static_cast<int>(usable_core_count())};
    try {
      ahead.emplace(files.size(), options, [&](auto const& run) { run(read); });
    } catch (std::system_error const&) {
      // The system has no more threads.
    }
  }
  for (std::size_t i = 0; i < files.size(); ++i) parts.push_back(ahead ? ahead->take() : read(i));
  return join_rows(parts, fmt::format("read {} files", files.size()), names);
}

}  // namespace raytrain::detail
