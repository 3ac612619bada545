// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include <raytrain/checkpoint/detail/file_system.hpp>

/// The system's files, where a test decides before each step whether it goes well.
class FaultyFiles : public raytrain::detail::FileSystem {
 public:
  /// Called with the name of each step before it; returns 0, or the errno with which the step fails instead.
  std::function<int(std::string const& step)> before = [](std::string const&) { return 0; };
  /// Bytes that one write takes at most.
  std::size_t write_bytes = SIZE_MAX;
  /// Instead of what the disk has.
  std::optional<std::uint64_t> free_bytes_said = UINT64_MAX;

  auto create(std::filesystem::path const& path) -> int override {
    return fails("create") ? -1 : FileSystem::create(path);
  }
  auto write(int file, raytrain::BytesView bytes) -> ::ssize_t override {
    return fails("write") ? -1 : FileSystem::write(file, bytes.first(std::min(bytes.size(), write_bytes)));
  }
  auto set_direct(int file, bool direct) -> int override {
    return fails(direct ? "set_direct" : "set_buffered") ? -1 : FileSystem::set_direct(file, direct);
  }
  auto sync(int file) -> int override { return fails("sync") ? -1 : FileSystem::sync(file); }
  auto rename(std::filesystem::path const& from, std::filesystem::path const& to) -> int override {
    return fails("rename") ? -1 : FileSystem::rename(from, to);
  }
  auto make_directory(std::filesystem::path const& path) -> int override {
    return fails("make_directory") ? -1 : FileSystem::make_directory(path);
  }
  auto remove_file(std::filesystem::path const& path) -> int override {
    return fails("remove_file") ? -1 : FileSystem::remove_file(path);
  }
  auto remove_directory(std::filesystem::path const& path) -> int override {
    return fails("remove_directory") ? -1 : FileSystem::remove_directory(path);
  }
  auto free_bytes(std::filesystem::path const&) -> std::optional<std::uint64_t> override { return free_bytes_said; }

 private:
  [[nodiscard]] auto fails(std::string const& step) -> bool {
    auto const problem = before(step);
    if (problem != 0) errno = problem;
    return problem != 0;
  }
};

/// Ends the process without a word at its `last`-th step, counted from 0, as SIGKILL would; a write is cut in half.
class DyingFiles : public FaultyFiles {
 public:
  static constexpr int exit_code = 77;

  explicit DyingFiles(int last) : left_{last} {
    before = [this](std::string const& step) {
      auto const is_last = left_-- == 0;
      if (is_last && step != "write") ::_exit(exit_code);
      dies_in_write_ = is_last;
      return 0;
    };
  }

  auto write(int file, raytrain::BytesView bytes) -> ::ssize_t override {
    write_bytes = left_ == 0 ? (bytes.size() + 1) / 2 : SIZE_MAX;
    auto const written = FaultyFiles::write(file, bytes);
    if (dies_in_write_) ::_exit(exit_code);
    return written;
  }

 private:
  int left_;
  bool dies_in_write_ = false;
};
