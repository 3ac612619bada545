// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include <raytrain/data/data_paths.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/detail/join_rows.hpp>

namespace raytrain::detail {

/// The rows of all files, each of which `read_file` makes a dataset of, one file after the other.
///
/// Errors: those of `DataPaths::files` and of `read_file`; `invalid_data` for a file whose columns are others than the
///         first one's.
/// Cost: the rows of several files are copied once.
template <class ReadFile>
[[nodiscard]] auto read_each(DataPaths const& paths, ReadFile const& read_file) -> Dataset {
  auto const files = paths.files();
  std::vector<Dataset> parts;
  std::vector<std::string> names;
  for (auto const& file : files) {
    parts.push_back(read_file(file));
    names.push_back(fmt::format("file '{}'", file.string()));
  }
  return join_rows(parts, fmt::format("read {} files", files.size()), names);
}

}  // namespace raytrain::detail
