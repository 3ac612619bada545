// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

/// Makes the folder too, where it is not there. Returns the path.
inline auto write_text(std::filesystem::path const& path, std::string_view text) -> std::filesystem::path {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream{path, std::ios::binary} << text;
  return path;
}

[[nodiscard]] inline auto read_text(std::filesystem::path const& path) -> std::string {
  std::ifstream file{path, std::ios::binary};
  std::ostringstream text;
  if (file.peek() != std::ifstream::traits_type::eof()) text << file.rdbuf();
  return std::move(text).str();
}

/// Names in a folder, sorted; empty when it is not there.
[[nodiscard]] inline auto names_below(std::filesystem::path const& folder) -> std::vector<std::string> {
  std::vector<std::string> names;
  std::error_code ignored;
  for (auto const& entry : std::filesystem::directory_iterator{folder, ignored}) {
    names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}
