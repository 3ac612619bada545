// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <utility>

#include <raytrain/checkpoint/detail/file_system.hpp>
#include <raytrain/checkpoint/run_directory.hpp>

/// A start of the run 'run' of one program.
[[nodiscard]] inline auto start_in(std::filesystem::path const& storage) -> raytrain::RunStart {
  return {.storage_path = storage, .name = "run", .program = "fashion", .backend = "torch"};
}

/// The same, which begins anew.
[[nodiscard]] inline auto fresh_in(std::filesystem::path const& storage) -> raytrain::RunStart {
  auto start = start_in(storage);
  start.fresh = true;
  return start;
}

/// A start that nothing refused.
inline auto started(raytrain::RunStart start, raytrain::detail::FileSystem& files = raytrain::detail::system_files())
    -> raytrain::RunDirectory {
  raytrain::RunDirectory directory{std::move(start), files};
  directory.record_start();
  return directory;
}
