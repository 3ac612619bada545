// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <exception>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/checkpoint/rank_folder.hpp>
#include <raytrain/checkpoint/sharded_array.hpp>
#include <raytrain/checkpoint/snapshot_buffers.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/element_type.hpp>
#include <raytrain/core/identifiers.hpp>

namespace raytrain {

/// One rank's part of a checkpoint that is yet to be written: files and metadata, held in memory.
///
/// Cost: copies share the files' contents.
class CheckpointDraft {
 public:
  using Fill = std::function<void(CheckpointDraft&)>;
  using Content = SharedBytes;
  /// Whether nobody needs a content any more that is yet to come.
  using IsGivenUp = std::function<bool()>;
  /// Returns when a content is there, or throws: `Stopped` soon after it is given up.
  using Complete = std::function<void(IsGivenUp const&)>;

  CheckpointDraft() = default;

  /// What a checkpoint holds now; its directory may go away afterwards.
  ///
  /// Errors: as `Checkpoint::read`.
  CheckpointDraft(Checkpoint const& checkpoint);  // NOLINT(google-explicit-constructor): report(metrics, checkpoint)

  /// What a directory holds now; it may go away afterwards.
  ///
  /// Errors: as `Checkpoint::from_directory` and `Checkpoint::read`.
  [[nodiscard]] static auto from_directory(std::filesystem::path const& directory) -> CheckpointDraft;

  /// State that is the same on every rank: `fill` is called on rank 0 only, and only rank 0's is written. With
  /// `CheckpointConfig::memory_copies` it is called on the ranks that keep a copy, too.
  [[nodiscard]] static auto replicated(Fill fill) -> CheckpointDraft;

  /// State of which each rank has a part of its own: `fill` is called on every rank, inside `report`.
  [[nodiscard]] static auto sharded(Fill fill) -> CheckpointDraft;

  /// `name`: relative to the checkpoint, '/' between folders. "raytrain_preprocessor.json" is raytrain's own.
  ///
  /// Errors: `invalid_report` for a name that leads outside, is taken, or is one that no file can have.
  auto add(std::string name, Bytes content) -> CheckpointDraft&;
  auto add(std::string name, Content content) -> CheckpointDraft&;
  auto add(std::string name, std::string_view text) -> CheckpointDraft&;

  /// A file whose content is not there yet: it is when `complete` returns, as one that a device still copies. Who
  /// stages the draft calls that once, on a thread beside the training; where the draft is not filled inside `report`
  /// it is called here. What it throws fails the checkpoint.
  ///
  /// Errors: as `add`.
  auto add_incomplete(std::string name, Content content, Complete complete) -> CheckpointDraft&;

  /// A file of this rank's own, which lies in `rank_folder_name`, also where the rest is the same on every rank.
  ///
  /// Errors: as `add`.
  auto add_own(std::string name, Bytes content) -> CheckpointDraft&;

  /// A file of the whole checkpoint, also where the rest lies in a folder of the rank's own, in place of one of that
  /// name, as a draft of a checkpoint has it. One rank sets it.
  ///
  /// Errors: as `add` for a name that no file can have.
  auto set_for_all(std::string name, Content content) -> CheckpointDraft&;

  /// Without the file of that name, if there is one.
  auto remove(std::string const& name) -> CheckpointDraft&;

  /// Memory for a file of so many bytes, which the caller fills before the draft is written: page-aligned, its content
  /// undefined. Inside `report` it is that of the file of this name in the checkpoint before.
  ///
  /// Errors: as `add`.
  [[nodiscard]] auto allocate(std::string name, std::size_t size_bytes) -> std::span<std::byte>;

  /// This rank's elements of an array that is spread over the ranks: those from `place.begin` on, of `place.total`
  /// that all ranks together have. A rank gives any number of slices of any lengths; each element comes from one rank.
  /// `Checkpoint::read_slice` reads any range of it, on any number of ranks; so does Python's safetensors, a slice a
  /// file. Copied at once, as by `allocate`, into a file of the rank's own folder.
  ///
  /// Errors: `invalid_report` for a slice that is empty, was added before or does not lie in the total, and for a name
  /// that is empty or that no file can have. Whether all ranks together gave each element once, with one type and
  /// total, is known when the checkpoint is committed: else the run fails by `rank_mismatch`.
  template <Element T>
  auto add_slice(std::string name, SlicePlace place, std::span<T const> elements) -> CheckpointDraft& {
    return add_slice_bytes(std::move(name), element_type<T>, place, std::as_bytes(elements));
  }

  /// A line that belongs to the whole checkpoint: ranks that set the same key must agree on its value.
  ///
  /// Errors: `invalid_report` for text that is not UTF-8.
  auto set_metadata(std::string key, std::string value) -> CheckpointDraft&;

  /// This rank's files go below a folder of its own, `rank_folder_name`, so that ranks may use the same names.
  auto per_rank() -> CheckpointDraft&;

  /// Calls the function that `replicated`, on rank 0 alone, or `sharded`, on each rank, was given: it fills the draft,
  /// which stays empty on the other ranks. `allocate` takes memory from `buffers`, if there are such. Does nothing for
  /// a draft without such a function.
  void fill(Rank rank, std::optional<SnapshotBuffers> buffers = std::nullopt);

  /// Whether it is filled inside `report`, where a file may be added that is incomplete until it is written.
  [[nodiscard]] auto may_be_incomplete() const noexcept -> bool { return buffers_.has_value(); }

  /// Whether the content of each file is there already.
  [[nodiscard]] auto is_complete() const noexcept -> bool { return incomplete_.empty(); }

  /// Returns when the content of each file is there.
  ///
  /// Threads: any; of several copies one waits for all.
  /// Errors:  what a function given to `add_incomplete` has thrown, each time.
  void wait_until_complete(IsGivenUp const& is_given_up = [] { return false; }) const;

  /// Whether it has no file; where there is something to fill, known only after `fill`.
  [[nodiscard]] auto empty() const noexcept -> bool { return files_.empty(); }
  [[nodiscard]] auto is_filled() const noexcept -> bool { return !fill_; }
  [[nodiscard]] auto is_per_rank() const noexcept -> bool { return per_rank_; }
  /// The same without what `add_own` was given.
  [[nodiscard]] auto without_own() const -> CheckpointDraft;
  /// Whether it is yet to be filled with what is the same on every rank.
  [[nodiscard]] auto is_yet_replicated() const noexcept -> bool { return fill_ && is_replicated_; }
  [[nodiscard]] auto contains(std::string const& name) const -> bool { return files_.contains(name); }
  /// With their contents, for which it waits.
  ///
  /// Errors: as `wait_until_complete`.
  [[nodiscard]] auto files() const -> std::map<std::string, Content> const& {
    wait_until_complete();
    return files_;
  }
  /// By the names that they have in the checkpoint, as that rank's part; without a wait for their contents.
  [[nodiscard]] auto files_of(Rank rank) const -> std::map<std::string, Content>;
  [[nodiscard]] auto metadata() const noexcept -> std::map<std::string, std::string> const& { return metadata_; }

 private:
  /// A content that is yet to come.
  struct Incomplete {
    std::mutex mutex{};
    Complete complete{};           // empty once it was called
    std::exception_ptr failure{};  // what it has thrown
  };

  void check_name(std::string const& name) const;

  auto add_slice_bytes(std::string name, ElementType type, SlicePlace place, BytesView elements) -> CheckpointDraft&;

  std::map<std::string, Content> files_;
  std::set<std::string> own_files_;      // those of `files_` that `add_own` was given
  std::set<std::string> files_for_all_;  // those that `set_for_all` was given
  std::map<std::string, std::string> metadata_;
  std::vector<std::shared_ptr<Incomplete>> incomplete_;  // of all copies
  Fill fill_;
  bool is_replicated_ = false;              // `fill_` is for rank 0 alone
  std::optional<SnapshotBuffers> buffers_;  // while it is filled
  bool per_rank_ = false;
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/checkpoint/checkpoint_draft-inl.hpp>
#endif
