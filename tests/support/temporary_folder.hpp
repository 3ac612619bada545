// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>

#include <doctest/doctest.h>

namespace raytrain::testing {

/// A new folder that goes away with everything in it; in memory where the system has room for files there, since a
/// run syncs its files.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::filesystem::path const memory{"/dev/shm"};
    auto const base = ::access(memory.c_str(), W_OK) == 0 ? memory : std::filesystem::temp_directory_path();
    auto name = (base / "raytrain-test-XXXXXX").string();
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

}  // namespace raytrain::testing
