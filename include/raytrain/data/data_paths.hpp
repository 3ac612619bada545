// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <filesystem>
#include <initializer_list>
#include <utility>
#include <vector>

namespace raytrain {

/// The files that a reader reads one behind the other: one file, all of a folder, those that a pattern matches, as
/// "part-*.csv", or several of these: `{"train.csv", "more/*.csv"}`.
///
/// Those of a folder, and those of a pattern, come in the order of their paths' bytes: part-10 before part-2. A
/// folder's files are left out whose names begin with '.' or '_', or end with ".tmp" as files do that are being
/// written. A path that is there is none of a pattern, whatever its letters. A file that is named twice is read twice.
/// Source: POSIX glob for *, ? and [a-z], in the names of folders, too.
class DataPaths {
 public:
  template <std::convertible_to<std::filesystem::path> P>
  DataPaths(P const& path) : paths_{std::filesystem::path{path}} {}
  DataPaths(std::initializer_list<std::filesystem::path> paths) : paths_{paths} {}
  DataPaths(std::vector<std::filesystem::path> paths) : paths_{std::move(paths)} {}

  /// One or more. Whether a path that is no pattern is that of a file, its reader finds out.
  ///
  /// Errors: `not_found` for a pattern that matches nothing and for a folder without files; `invalid_data` for a folder
  ///         with another one in it, of which nothing would be read; `invalid_call` where no path is given; `io`.
  [[nodiscard]] auto files() const -> std::vector<std::filesystem::path>;

 private:
  std::vector<std::filesystem::path> paths_;
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/data/data_paths-inl.hpp>
#endif
