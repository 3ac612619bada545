// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <glob.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/data/data_paths.hpp>
#include <raytrain/data/detail/data_file.hpp>

namespace raytrain::detail {

[[nodiscard]] RAYTRAIN_INLINE auto is_data_file_name(std::string_view name) -> bool {
  return !name.starts_with('.') && !name.starts_with('_') && !name.ends_with(".tmp");
}

[[nodiscard]] RAYTRAIN_INLINE auto files_of_folder(std::filesystem::path const& folder)
    -> std::vector<std::filesystem::path> {
  auto const attempted = fmt::format("read the files of folder '{}'", folder.string());
  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (std::filesystem::directory_iterator entry{folder, error}, end; !error && entry != end; entry.increment(error)) {
    if (!is_data_file_name(entry->path().filename().string())) continue;
    std::error_code ignored;
    if (entry->is_directory(ignored)) {
      throw Error{Errc::invalid_data, attempted,
                  fmt::format("it has a folder '{}', of which nothing would be read", entry->path().string()),
                  "name the files by patterns, as \"data/*/*.csv\""};
    }
    files.push_back(entry->path());
  }
  if (error) throw Error{Errc::io, attempted, error.message(), "check its permissions"};
  if (files.empty()) throw Error{Errc::not_found, attempted, "it has none", "check the path"};
  return files;
}

[[nodiscard]] RAYTRAIN_INLINE auto files_of_pattern(std::filesystem::path const& pattern)
    -> std::vector<std::filesystem::path> {
  auto const attempted = fmt::format("read files '{}'", pattern.string());
  if (pattern.native().find("**") != std::string::npos) {
    throw Error{Errc::invalid_config, attempted, "** stands for one level of folders here, as * does",
                "write a pattern for each level, as {\"data/*.csv\", \"data/*/*.csv\"}"};
  }
  ::glob_t found{};
  std::unique_ptr<::glob_t, decltype(&::globfree)> const owner{&found, &::globfree};
  errno = 0;
  auto const code = ::glob(pattern.c_str(), GLOB_NOSORT | GLOB_ERR, nullptr, &found);
  if (code == GLOB_NOSPACE) throw std::bad_alloc{};
  if (code == GLOB_ABORTED && errno != ENOENT) {
    throw Error{Errc::io, attempted, std::generic_category().message(errno), "check the permissions of its folders"};
  }
  if (code != 0) {
    throw Error{Errc::not_found, attempted, "no file matches this pattern; " + neighbours(pattern),
                "check the pattern"};
  }
  return {found.gl_pathv, std::next(found.gl_pathv, static_cast<std::ptrdiff_t>(found.gl_pathc))};
}

[[nodiscard]] RAYTRAIN_INLINE auto files_of_path(std::filesystem::path const& path)
    -> std::vector<std::filesystem::path> {
  std::error_code ignored;
  auto const status = std::filesystem::status(path, ignored);
  auto const is_pattern = path.native().find_first_of("*?[") != std::string::npos;
  if (std::filesystem::is_directory(status)) return files_of_folder(path);
  if (is_pattern && !std::filesystem::exists(status)) return files_of_pattern(path);
  return {path};
}

}  // namespace raytrain::detail

namespace raytrain {

RAYTRAIN_INLINE auto DataPaths::files() const -> std::vector<std::filesystem::path> {
  if (paths_.empty()) {
    throw Error{Errc::invalid_call, "read data files", "no path is given", "name a file, a folder or a pattern"};
  }
  std::vector<std::filesystem::path> files;
  for (auto const& path : paths_) {
    auto some = detail::files_of_path(path);
    std::ranges::sort(some, {}, &std::filesystem::path::native);
    std::ranges::move(some, std::back_inserter(files));
  }
  return files;
}

}  // namespace raytrain
