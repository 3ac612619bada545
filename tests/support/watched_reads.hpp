// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <raytrain/checkpoint/checkpoint_files.hpp>
#include <raytrain/checkpoint/directory_store.hpp>
#include <raytrain/config/checkpoint_config.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain::testing {

/// A directory that tells of each time that the content of a file is read, but for the manifest's.
class WatchedReads final : public DirectoryStore {
 public:
  using OnRead = std::function<void(std::string const& name)>;

  WatchedReads(std::filesystem::path const& directory, OnRead on_read)
      : DirectoryStore{directory}, on_read_{std::move(on_read)} {}

  [[nodiscard]] auto files_of(CheckpointNumber number) const -> std::shared_ptr<CheckpointFiles const> override {
    return std::make_shared<Files const>(DirectoryStore::files_of(number), on_read_);
  }

 private:
  /// Its `view` and `xxh3_of` are those that read all of a file.
  class Files final : public CheckpointFiles {
   public:
    Files(std::shared_ptr<CheckpointFiles const> files, OnRead on_read)
        : files_{std::move(files)}, on_read_{std::move(on_read)} {}

    [[nodiscard]] auto location() const -> std::string override { return files_->location(); }
    [[nodiscard]] auto directory() const noexcept -> std::filesystem::path const& override {
      return files_->directory();
    }
    void check_there() const override { files_->check_there(); }
    [[nodiscard]] auto list() const -> std::vector<FileEntry> override { return files_->list(); }
    [[nodiscard]] auto size_of(std::string const& name) const -> std::optional<std::uint64_t> override {
      return files_->size_of(name);
    }
    [[nodiscard]] auto read(std::string const& name) const -> Bytes override {
      if (name != "manifest.json") on_read_(name);
      return files_->read(name);
    }

   private:
    std::shared_ptr<CheckpointFiles const> files_;
    OnRead on_read_;
  };

  OnRead on_read_;
};

/// That store in the folder of a run.
[[nodiscard]] inline auto watched_store(WatchedReads::OnRead on_read) -> MakeCheckpointStore {
  return [on_read = std::move(on_read)](std::filesystem::path const& run_path) {
    return std::make_shared<WatchedReads>(run_path / "checkpoints", on_read);
  };
}

}  // namespace raytrain::testing
