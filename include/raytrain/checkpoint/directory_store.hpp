// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <raytrain/checkpoint/checkpoint_draft.hpp>
#include <raytrain/checkpoint/checkpoint_files.hpp>
#include <raytrain/checkpoint/checkpoint_store.hpp>
#include <raytrain/checkpoint/detail/file_system.hpp>
#include <raytrain/core/identifiers.hpp>

namespace raytrain {

/// A store that is a directory, on any file system that all processes of a job see: a checkpoint is a folder in it.
///
/// A part for which the disk has too little room is refused before a file of it is made. Parts are staged in folders
/// whose names begin with a dot, and published by one rename, after everything in them is synced.
class DirectoryStore : public CheckpointStore {
 public:
  explicit DirectoryStore(std::filesystem::path const& directory, detail::FileSystem& files = detail::system_files())
      : directory_{std::filesystem::absolute(directory).lexically_normal()}, files_{files} {}
  /// One that has begun.
  DirectoryStore(std::filesystem::path const& directory, StartId start, std::string run_id = {})
      : DirectoryStore{directory} {
    DirectoryStore::begin(std::move(start), std::move(run_id));
  }

  [[nodiscard]] auto path_of(CheckpointNumber number) const -> std::filesystem::path;

  [[nodiscard]] auto location() const -> std::string override { return directory_.string(); }
  [[nodiscard]] auto numbers() const -> std::vector<CheckpointNumber> override;
  [[nodiscard]] auto files_of(CheckpointNumber number) const -> std::shared_ptr<CheckpointFiles const> override;
  auto write_part(StagedPart const& part, std::map<std::string, CheckpointDraft::Content> const& files)
      -> std::map<std::string, std::string> override;
  void publish(StagedCheckpoint const& staged) override;
  void discard(CheckpointOrdinal checkpoint) override;
  void remove(CheckpointNumber number) override;
  void sweep() override;
  /// Errors: `io` for something else in place of the directory, and for a link that leads to none.
  void check_usable() const override;
  void check_clearable() const override;
  /// Makes the folders above it, too.
  auto create() -> bool override;
  /// Of a link in place of the directory the link alone goes.
  void clear() override;

 private:
  [[nodiscard]] auto staging(CheckpointOrdinal checkpoint) const -> std::filesystem::path;
  // Makes the folders that lead from `root` to a file, each once.
  void make_folders(std::filesystem::path const& root, std::string const& name, std::set<std::string>& made);
  void check_free_space(StagedPart const& part, std::map<std::string, CheckpointDraft::Content> const& files) const;
  void check_staged(StagedCheckpoint const& staged) const;

  std::filesystem::path directory_;
  detail::FileSystem& files_;
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/checkpoint/directory_store-inl.hpp>
#endif
