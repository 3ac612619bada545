// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <raytrain/checkpoint/checkpoint_draft.hpp>
#include <raytrain/checkpoint/checkpoint_files.hpp>
#include <raytrain/checkpoint/checkpoint_store.hpp>
#include <raytrain/checkpoint/detail/file_names.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/xxh3.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain::testing {

/// A store in this process's memory: a model of `CheckpointStore` without a file system, to test by and to read.
class MemoryStore : public CheckpointStore {
 public:
  using Files = std::map<std::string, CheckpointDraft::Content>;

  /// What outlives a store, as a disk outlives the process that writes to it. Threads: `mutex` before anything else.
  struct Memory {
    struct Staging {
      std::uint64_t start{};
      std::string start_id;
      CheckpointOrdinal checkpoint{};
      friend auto operator<=>(Staging const&, Staging const&) = default;
    };

    std::mutex mutex;
    std::map<CheckpointNumber, Files> checkpoints;
    std::map<Staging, std::map<Rank, Files>> staged;
  };

  explicit MemoryStore(std::shared_ptr<Memory> memory) : memory_{std::move(memory)} {}

  [[nodiscard]] auto location() const -> std::string override { return "memory"; }

  [[nodiscard]] auto numbers() const -> std::vector<CheckpointNumber> override {
    std::lock_guard const lock{memory_->mutex};
    std::vector<CheckpointNumber> numbers;
    for (auto const& [number, files] : memory_->checkpoints) numbers.push_back(number);
    return numbers;
  }

  [[nodiscard]] auto files_of(CheckpointNumber number) const -> std::shared_ptr<CheckpointFiles const> override {
    return std::make_shared<StoredFiles const>(memory_, number);
  }

  auto write_part(StagedPart const& part, Files const& files) -> std::map<std::string, std::string> override {
    std::map<std::string, std::string> checksums;
    for (auto const& [name, content] : files) checksums.emplace(name, raytrain::detail::xxh3_of(content.view()));
    std::lock_guard const lock{memory_->mutex};
    memory_->staged[staging(part.checkpoint)][part.rank] = files;
    return checksums;
  }

  void publish(StagedCheckpoint const& staged) override {
    std::lock_guard const lock{memory_->mutex};
    auto& parts = memory_->staged[staging(staged.checkpoint)];
    auto const manifest = bytes_of(staged.manifest);
    Files files{{std::string{raytrain::detail::manifest_name},
                 CheckpointDraft::Content{Bytes{manifest.begin(), manifest.end()}}}};
    for (auto const& [name, file] : staged.files) {
      auto const& part = parts[file.rank];
      auto const found = part.find(name);
      if (found == part.end() || found->second.size() != file.size_bytes) {
        throw Error{Errc::invalid_call, committing(staged.checkpoint),
                    "file '" + name + "' of rank " + std::to_string(file.rank.value) + " was not staged as it is told",
                    "a worker of an earlier start has no say in this one: end it"};
      }
      files.emplace(name, found->second);
    }
    if (memory_->checkpoints.emplace(staged.number, std::move(files)).second) return;
    throw Error{Errc::io, committing(staged.checkpoint), "number " + std::to_string(staged.number.value) + " is taken"};
  }

  void discard(CheckpointOrdinal checkpoint) override {
    std::lock_guard const lock{memory_->mutex};
    memory_->staged.erase(staging(checkpoint));
  }

  void remove(CheckpointNumber number) override {
    std::lock_guard const lock{memory_->mutex};
    if (memory_->checkpoints.erase(number) == 1) return;
    throw Error{Errc::not_found, "removing checkpoint " + std::to_string(number.value), "there is no such checkpoint"};
  }

  void sweep() override {
    std::lock_guard const lock{memory_->mutex};
    std::erase_if(memory_->staged, [this](auto const& entry) { return entry.first.start < start().number; });
  }

  void clear() override {
    std::lock_guard const lock{memory_->mutex};
    memory_->checkpoints.clear();
    memory_->staged.clear();
  }

 private:
  class StoredFiles final : public CheckpointFiles {
   public:
    StoredFiles(std::shared_ptr<Memory> memory, CheckpointNumber number)
        : memory_{std::move(memory)}, number_{number} {}

    [[nodiscard]] auto location() const -> std::string override { return "memory/" + std::to_string(number_.value); }

    void check_there() const override { (void)all(); }

    [[nodiscard]] auto list() const -> std::vector<FileEntry> override {
      std::vector<FileEntry> entries;
      for (auto const& [name, content] : all()) entries.push_back({name, content.size(), {}});
      return entries;
    }

    [[nodiscard]] auto size_of(std::string const& name) const -> std::optional<std::uint64_t> override {
      auto const files = all();
      auto const found = files.find(name);
      return found == files.end() ? std::nullopt : std::optional<std::uint64_t>{found->second.size()};
    }

    [[nodiscard]] auto read(std::string const& name) const -> Bytes override {
      auto const files = all();
      auto const found = files.find(name);
      if (found == files.end()) throw Error{Errc::io, attempted(), "there is no file '" + name + "'"};
      auto const content = found->second.view();
      return {content.begin(), content.end()};
    }

   private:
    [[nodiscard]] auto all() const -> Files {
      std::lock_guard const lock{memory_->mutex};
      auto const found = memory_->checkpoints.find(number_);
      if (found != memory_->checkpoints.end()) return found->second;
      throw Error{Errc::not_found, attempted(), "there is no such checkpoint", "it was removed"};
    }

    std::shared_ptr<Memory> memory_;
    CheckpointNumber number_;
  };

  [[nodiscard]] auto staging(CheckpointOrdinal checkpoint) const -> Memory::Staging {
    return {start().number, start().id, checkpoint};
  }

  std::shared_ptr<Memory> memory_;
};

}  // namespace raytrain::testing
