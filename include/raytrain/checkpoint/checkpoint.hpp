// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <raytrain/checkpoint/checkpoint_files.hpp>
#include <raytrain/checkpoint/sharded_array.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/element_type.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/metrics.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain {

namespace detail {
struct KnownSlices;
struct SliceFile;
using SliceFiles = std::map<std::string, std::vector<SliceFile>, std::less<>>;
}  // namespace detail

class CheckpointCopies;
struct Manifest;
struct StoredFile;

/// A state of training in a store, mostly a directory, by value: copies name the same one, and none of them owns it.
///
/// A committed one has a manifest, by which every read is verified. A directory that a user filled has none: then there
/// are no numbers, metrics and metadata, and whatever lies in it is taken as it is.
///
/// Threads: every function from any thread.
class Checkpoint {
 public:
  /// The one whose files these are; for those who write a `CheckpointStore`.
  ///
  /// Errors: `not_found` when it is not there; `corrupt_checkpoint` when its manifest is not as it was written;
  /// `foreign_run` for one by a newer raytrain; `io` when it cannot be read.
  explicit Checkpoint(std::shared_ptr<CheckpointFiles const> files);

  /// Errors: `not_found` without such a directory; `corrupt_checkpoint` when its manifest is not as it was written;
  /// `foreign_run` for one by a newer raytrain; `io` when it cannot be read.
  [[nodiscard]] static auto from_directory(std::filesystem::path const& directory) -> Checkpoint;

  /// Writes what `to_bytes` gave into a directory that is empty or yet to be created, and removes it after a failure.
  ///
  /// Errors: `corrupt_checkpoint` for bytes that are not such, before anything is created; `io`.
  [[nodiscard]] static auto from_bytes(BytesView bytes, std::filesystem::path const& directory) -> Checkpoint;

  /// The same one, of which `copies` are read in place of the files that lie in the store, as long as they are there
  /// and have the bytes that were committed.
  [[nodiscard]] auto with_copies(std::shared_ptr<CheckpointCopies const> const& copies) const -> Checkpoint;

  /// Where it lies, as people are told: its directory, or an address in the store that has it.
  [[nodiscard]] auto location() const -> std::string { return files_->location(); }
  /// The directory that it is.
  ///
  /// Errors: `invalid_call` for one that lies in no directory of this machine.
  [[nodiscard]] auto path() const -> std::filesystem::path const&;
  /// The same as `path`, under Ray Train's name.
  [[nodiscard]] auto as_directory() const -> std::filesystem::path const& { return path(); }

  /// Position among the run's checkpoints, from 1; 0 if it was never committed.
  [[nodiscard]] auto number() const noexcept -> CheckpointNumber;
  /// The run that wrote it, as `run_id` in its run.json; empty if it was never committed, or by a version that did not
  /// record it.
  [[nodiscard]] auto run_id() const -> std::string;
  /// Number of the start that wrote it, from 1; 0 if it was never committed.
  [[nodiscard]] auto start() const noexcept -> std::uint64_t;
  /// Rank 0's reports until this one; 0 if it was never committed.
  [[nodiscard]] auto training_iteration() const noexcept -> std::uint64_t;
  /// That rank's reports until this one; rank 0's if there was no such rank.
  [[nodiscard]] auto training_iteration(Rank rank) const noexcept -> std::uint64_t;
  /// Reports of each rank that the run's history had until this one; none if it was never committed.
  [[nodiscard]] auto kept_reports() const noexcept -> std::optional<std::vector<std::uint64_t>> const&;
  /// `RunConfig::seed` of the start that wrote it; none if it was never committed.
  [[nodiscard]] auto seed() const noexcept -> std::optional<std::uint64_t>;
  /// Rows of that dataset in the start that wrote it; none if there was no such dataset.
  [[nodiscard]] auto dataset_rows(std::string const& name) const -> std::optional<std::uint64_t>;
  /// `Dataset::digest` of that dataset in the start that wrote it; none if there was no such dataset.
  [[nodiscard]] auto dataset_digest(std::string const& name) const -> std::optional<std::string>;
  /// `BatchOptions::batch_size` by which rank 0 had last taken that dataset; none if it had not.
  [[nodiscard]] auto batch_size(std::string const& name) const -> std::optional<std::uint64_t>;
  /// How far that dataset was taken: by all workers together where they share it, else by each; none if it was not
  /// there.
  [[nodiscard]] auto position(std::string const& name) const -> std::optional<ShardPosition>;
  /// Of all datasets of which that is known, by their names.
  [[nodiscard]] auto positions() const -> std::map<std::string, ShardPosition>;
  /// `BatchOptions::order` in which that position's epoch had the rows; none if no batch of it was taken, or by a
  /// version that did not record it.
  [[nodiscard]] auto order(std::string const& name) const -> std::optional<std::string>;
  /// Whether it came by `TrainContext::hand_over`, with no report of its own: `metrics` are those of the report before
  /// it, which say nothing of this state.
  [[nodiscard]] auto is_handed_over() const noexcept -> bool;
  /// Workers of the start that wrote it; 0 if it was never committed.
  [[nodiscard]] auto world_size() const noexcept -> WorldSize;
  /// Seconds of training until this one, over all starts of the run; 0 if it was never committed.
  [[nodiscard]] auto time_total_s() const noexcept -> double;
  /// Rank 0's report that came with it; empty if it was never committed.
  [[nodiscard]] auto metrics() const noexcept -> Metrics const&;
  /// What the ranks gave by `CheckpointDraft::set_metadata`, together.
  [[nodiscard]] auto metadata() const noexcept -> std::map<std::string, std::string> const&;
  /// `RunConfig::metadata` of the start that wrote it; empty if it was never committed.
  [[nodiscard]] auto run_metadata() const -> std::map<std::string, std::string>;

  /// In the order of their names, without the manifest; of one that was never committed without checksums.
  ///
  /// Errors: `not_found` when it has vanished.
  [[nodiscard]] auto files() const -> std::vector<FileEntry>;

  /// Whether `files` has one of that name. Errors: as `files`.
  [[nodiscard]] auto contains(std::string_view name) const -> bool;

  /// Content of one file, verified.
  ///
  /// Errors: `not_found` for a name that is not there, listing those that are; `corrupt_checkpoint`; `io`.
  [[nodiscard]] auto read(std::string_view name) const -> Bytes;

  /// The same without a copy in memory, where its store can: bytes that stay where they are until the result is gone,
  /// also when the checkpoint is removed.
  ///
  /// Errors: as `read`. Who shortens a file of a directory meanwhile ends the process by SIGBUS.
  [[nodiscard]] auto view(std::string_view name) const -> SharedBytes;

  /// What ranks gave by `CheckpointDraft::add_slice`, by name. Reads none of it.
  ///
  /// Errors: as `files`; `corrupt_checkpoint` for one of which a directory without a manifest has not all.
  [[nodiscard]] auto sharded_arrays() const -> std::map<std::string, ShardedArray>;

  /// Fills `elements` with those of a sharded array from `begin` on, on any number of ranks. Opens the files alone that
  /// hold some of them, and verifies each as a whole.
  ///
  /// Errors: `not_found` for a name that is not there, listing those that are; `invalid_call` for another type than the
  /// array has and for a range that does not lie in it; `corrupt_checkpoint` and `io`, after which `elements` may be
  /// filled in part. Who shortens a file of a directory meanwhile ends the process by SIGBUS.
  template <Element T>
  void read_slice(std::string_view name, std::uint64_t begin, std::span<T> elements) const {
    read_slice_bytes(name, element_type<T>, begin, std::as_writable_bytes(elements));
  }

  /// Returns if every file is there, as long as it was committed; reads the manifest alone.
  ///
  /// Errors: as `verify`.
  void check_complete() const;

  /// Returns if every file is as it was committed; of one that was never committed, if it is there.
  ///
  /// Errors: `corrupt_checkpoint`, naming the first bad file; `not_found` when it has vanished; `io`.
  /// Cost: reads every file.
  void verify() const;

  /// All files, the manifest too, verified, as one run of bytes for `from_bytes`.
  ///
  /// Errors: as `read`.
  [[nodiscard]] auto to_bytes() const -> Bytes;

 private:
  template <class T>
  [[nodiscard]] static auto value_of(std::optional<std::map<std::string, T>> const& values, std::string const& name)
      -> std::optional<T> {
    if (!values) return std::nullopt;
    auto const found = values->find(name);
    return found == values->end() ? std::nullopt : std::optional{found->second};
  }

  [[nodiscard]] auto is_committed() const noexcept -> bool;

  /// None if there is no such file. Of one that was never committed asks for this file alone, where it can.
  [[nodiscard]] auto find_file(std::string_view name) const -> std::optional<FileEntry>;

  /// Of a file that is there by its name.
  [[nodiscard]] auto entry_of(std::string_view name) const -> FileEntry;

  /// Throws if one that was committed has another size.
  void check_size(FileEntry const& entry) const;

  void check_content(FileEntry const& entry, BytesView content) const;

  [[nodiscard]] auto view(FileEntry const& entry) const -> SharedBytes;

  /// From memory, verified; none if it is not there.
  [[nodiscard]] auto copy_of(FileEntry const& entry) const -> std::optional<SharedBytes>;

  /// Of one that was committed found once for all of its copies.
  [[nodiscard]] auto slice_files() const -> std::shared_ptr<detail::SliceFiles const>;

  void read_slice_bytes(std::string_view name, ElementType type, std::uint64_t begin,
                        std::span<std::byte> elements) const;

  void check_array(std::string const& name, std::vector<detail::SliceFile> const& slices) const;

  void check_manifest() const;

  void check_size(std::string const& name, StoredFile const& stored) const;

  void check_hash(std::string const& name, StoredFile const& stored, std::string const& hash) const;

  std::shared_ptr<CheckpointFiles const> files_;  // never null
  std::weak_ptr<CheckpointCopies const> copies_;  // they end with the run
  std::shared_ptr<Manifest const> manifest_;      // never null; number 0: it has none
  std::shared_ptr<detail::KnownSlices> slices_;   // of one that was committed
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/checkpoint/checkpoint-inl.hpp>
#endif
