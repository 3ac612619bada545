// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <raytrain/checkpoint/detail/file_system.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/file_descriptor.hpp>

/// Steps on disk that throw `Errc::io` when they fail; none of them goes on after a failure.
namespace raytrain::detail {

void sync(FileSystem& files, FileDescriptor const& file, std::filesystem::path const& path);

/// Makes durable which names a directory holds.
void sync_directory(FileSystem& files, std::filesystem::path const& directory);

/// Writes a new file durably (its name is made durable by `sync_directory`), and returns the XXH3-128 of its content.
auto write_file(FileSystem& files, std::filesystem::path const& path, BytesView content) -> std::string;

void rename(FileSystem& files, std::filesystem::path const& from, std::filesystem::path const& to);

/// False if it was there already.
auto make_directory(FileSystem& files, std::filesystem::path const& directory) -> bool;

/// Those among a directory and the ones above it that are not there, the outermost first.
///
/// Errors: `io` when the system cannot say.
[[nodiscard]] auto missing_directories(std::filesystem::path directory) -> std::vector<std::filesystem::path>;

void remove_file(FileSystem& files, std::filesystem::path const& path);

/// Names of what lies in a directory; none when it is not there.
[[nodiscard]] auto entries_in(std::filesystem::path const& directory) -> std::vector<std::string>;

/// Removes a directory and all in it; one that is not there is fine. Of a link, here or below, the link alone goes.
void remove_tree(FileSystem& files, std::filesystem::path const& directory);

/// For cleaning up after a failure, which is the one to be told.
void try_remove_tree(FileSystem& files, std::filesystem::path const& directory) noexcept;

/// Puts `text` in place of a file's content: whatever happens on the way, a reader finds the old or the new one.
void replace_file(FileSystem& files, std::filesystem::path const& path, std::string_view text);

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/checkpoint/detail/durable_files-inl.hpp>
#endif
