// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <raytrain/checkpoint/checkpoint_draft.hpp>
#include <raytrain/checkpoint/checkpoint_files.hpp>
#include <raytrain/checkpoint/checkpoint_store.hpp>
#include <raytrain/checkpoint/detail/directory_files.hpp>
#include <raytrain/checkpoint/detail/durable_files.hpp>
#include <raytrain/checkpoint/detail/file_names.hpp>
#include <raytrain/checkpoint/detail/file_system.hpp>
#include <raytrain/checkpoint/detail/read_file.hpp>
#include <raytrain/checkpoint/directory_store.hpp>
#include <raytrain/checkpoint/rank_folder.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain {

RAYTRAIN_INLINE auto DirectoryStore::path_of(CheckpointNumber number) const -> std::filesystem::path {
  return directory_ / detail::checkpoint_name(number.value);
}

RAYTRAIN_INLINE auto DirectoryStore::staging(CheckpointOrdinal checkpoint) const -> std::filesystem::path {
  return directory_ / detail::staging_name({start().number, checkpoint.value}, start().id);
}

RAYTRAIN_INLINE auto DirectoryStore::numbers() const -> std::vector<CheckpointNumber> {
  std::vector<CheckpointNumber> numbers;
  for (auto const& name : detail::entries_in(directory_)) {
    if (auto const number = detail::parse_checkpoint(name)) numbers.push_back(CheckpointNumber{*number});
  }
  std::ranges::sort(numbers);
  return numbers;
}

RAYTRAIN_INLINE auto DirectoryStore::files_of(CheckpointNumber number) const -> std::shared_ptr<CheckpointFiles const> {
  return std::make_shared<detail::DirectoryFiles const>(path_of(number));
}

RAYTRAIN_INLINE auto DirectoryStore::write_part(StagedPart const& part,
                                                std::map<std::string, CheckpointDraft::Content> const& files)
    -> std::map<std::string, std::string> {
  check_free_space(part, files);
  auto const folder = staging(part.checkpoint) / rank_folder_name(part.rank);
  (void)detail::make_directory(files_, folder.parent_path());
  if (!detail::make_directory(files_, folder)) {
    // Left by a run whose record was lost, so that starts were counted anew.
    detail::remove_tree(files_, folder);
    (void)detail::make_directory(files_, folder);
  }
  std::map<std::string, std::string> checksums;
  try {
    std::set<std::string> made;
    for (auto const& [name, content] : files) {
      make_folders(folder, name, made);
      checksums.emplace(name, detail::write_file(files_, folder / name, content.view()));
    }
  } catch (Error const&) {
    detail::try_remove_tree(files_, folder);
    throw;
  }
  return checksums;
}

RAYTRAIN_INLINE void DirectoryStore::check_free_space(
    StagedPart const& part, std::map<std::string, CheckpointDraft::Content> const& files) const {
  constexpr std::uint64_t block_bytes = 4096;
  std::uint64_t needed_bytes = 4 * block_bytes;  // for folders and the manifest
  for (auto const& [name, content] : files)
    needed_bytes += (content.size() + block_bytes - 1) / block_bytes * block_bytes;
  auto const free_bytes = files_.free_bytes(directory_);
  if (!free_bytes || needed_bytes <= *free_bytes) return;
  throw Error{Errc::io,
              fmt::format("writing rank {}'s part of a checkpoint to '{}'", part.rank.value, directory_.string()),
              fmt::format("it needs {} bytes, and {} are free on that disk", needed_bytes, *free_bytes),
              detail::io_remedy(ENOSPC)};
}

RAYTRAIN_INLINE void DirectoryStore::publish(StagedCheckpoint const& staged) {
  check_staged(staged);
  auto const folder = staging(staged.checkpoint);
  auto const merged = folder / detail::merged_name;
  // Parts without a file are not staged, so that the folder may be missing.
  (void)detail::make_directory(files_, folder);
  detail::remove_tree(files_, merged);
  (void)detail::make_directory(files_, merged);
  std::set<std::string> made;
  for (auto const& [name, file] : staged.files) {
    make_folders(merged, name, made);
    detail::rename(files_, folder / rank_folder_name(file.rank) / name, merged / name);
  }
  (void)detail::write_file(files_, merged / detail::manifest_name, bytes_of(staged.manifest));
  for (auto const& name : made) detail::sync_directory(files_, merged / name);
  detail::sync_directory(files_, merged);

  auto const path = path_of(staged.number);
  detail::rename(files_, merged, path);
  try {
    detail::sync_directory(files_, directory_);
  } catch (Error const&) {
    (void)files_.rename(path, merged);
    throw;
  }
}

RAYTRAIN_INLINE void DirectoryStore::check_staged(StagedCheckpoint const& staged) const {
  for (auto const& [name, file] : staged.files) {
    auto const path = staging(staged.checkpoint) / rank_folder_name(file.rank) / name;
    std::error_code problem;
    auto const size = std::filesystem::file_size(path, problem);
    if (!problem && size == file.size_bytes) continue;
    if (problem && problem != std::errc::no_such_file_or_directory) {
      throw detail::io_error("reading the size of", path, problem.value());
    }
    throw Error{Errc::invalid_call, committing(staged.checkpoint),
                problem ? fmt::format("file '{}' of rank {} was not staged by start {} of this run", name,
                                      file.rank.value, start().number)
                        : fmt::format("file '{}' of rank {} has {} bytes instead of the {} that were staged", name,
                                      file.rank.value, size, file.size_bytes),
                "a worker of an earlier start has no say in this one: end it"};
  }
}

RAYTRAIN_INLINE void DirectoryStore::make_folders(std::filesystem::path const& root, std::string const& name,
                                                  std::set<std::string>& made) {
  for (auto slash = name.find('/'); slash != std::string::npos; slash = name.find('/', slash + 1)) {
    auto folder = name.substr(0, slash);
    if (made.contains(folder)) continue;
    (void)detail::make_directory(files_, root / folder);
    made.insert(std::move(folder));
  }
}

RAYTRAIN_INLINE void DirectoryStore::discard(CheckpointOrdinal checkpoint) {
  detail::try_remove_tree(files_, staging(checkpoint));
}

RAYTRAIN_INLINE void DirectoryStore::remove(CheckpointNumber number) {
  auto const trash = directory_ / detail::trash_name({start().number, number.value});
  if (detail::type_of(path_of(number)) == std::filesystem::file_type::not_found) {
    throw Error{Errc::not_found, "removing checkpoint " + std::to_string(number.value),
                "there is no '" + path_of(number).string() + "'"};
  }
  detail::remove_tree(files_, trash);
  detail::rename(files_, path_of(number), trash);
  detail::sync_directory(files_, directory_);
  detail::remove_tree(files_, trash);
}

RAYTRAIN_INLINE void DirectoryStore::sweep() {
  for (auto const& name : detail::entries_in(directory_)) {
    auto const leftover = detail::parse_leftover(name);
    if (leftover && leftover->start < start().number) detail::remove_tree(files_, directory_ / name);
  }
}

RAYTRAIN_INLINE void DirectoryStore::check_usable() const {
  if (detail::type_of(directory_) == std::filesystem::file_type::directory) return;
  auto const type = detail::link_type_of(directory_);
  if (type == std::filesystem::file_type::not_found) return;
  auto const is_dangling = type == std::filesystem::file_type::symlink &&
                           detail::type_of(directory_) == std::filesystem::file_type::not_found;
  throw Error{Errc::io, "opening the store of checkpoints '" + directory_.string() + "'",
              is_dangling ? "it is a link that leads to no folder" : "it is not a folder",
              is_dangling ? "mount or create the folder it leads to, or remove the link" : "move it elsewhere"};
}

RAYTRAIN_INLINE void DirectoryStore::check_clearable() const {
  if (detail::link_type_of(directory_) == std::filesystem::file_type::symlink) return;
  check_usable();
  for (auto const& name : detail::entries_in(directory_)) {
    if (detail::parse_checkpoint(name) || detail::parse_leftover(name)) continue;
    throw Error{Errc::foreign_run, "deleting the checkpoints in '" + directory_.string() + "' (Resume::fresh)",
                "'" + (directory_ / name).string() + "' is not raytrain's",
                "move it elsewhere, or choose another RunConfig::name"};
  }
}

RAYTRAIN_INLINE auto DirectoryStore::create() -> bool {
  auto is_new = false;
  for (auto const& path : detail::missing_directories(directory_)) {
    is_new = detail::make_directory(files_, path);
    try {
      detail::sync_directory(files_, path.parent_path());
    } catch (Error const&) {
      (void)files_.remove_directory(path);
      throw;
    }
  }
  return is_new;
}

RAYTRAIN_INLINE void DirectoryStore::clear() { detail::remove_tree(files_, directory_); }

}  // namespace raytrain
