// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <doctest/doctest.h>

/// A new folder that goes away with everything in it; in memory where the system has room for files there, since these
/// tests sync much.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::filesystem::path const memory{"/dev/shm"};
    auto const base = ::access(memory.c_str(), W_OK) == 0 ? memory : std::filesystem::temp_directory_path();
    auto name = (base / "raytrain-checkpoint-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  TemporaryFolder(TemporaryFolder const&) = delete;
  auto operator=(TemporaryFolder const&) -> TemporaryFolder& = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  [[nodiscard]] auto path() const noexcept -> std::filesystem::path const& { return path_; }

 private:
  std::filesystem::path path_;
};

inline void write_text(std::filesystem::path const& path, std::string_view text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream{path, std::ios::binary} << text;
}

[[nodiscard]] inline auto read_text(std::filesystem::path const& path) -> std::string {
  std::ifstream file{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{file}, {}};
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
