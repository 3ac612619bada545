// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/checkpoint/checkpoint_draft.hpp>
#include <raytrain/checkpoint/checkpoint_files.hpp>
#include <raytrain/checkpoint/manifest.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/metrics.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain {

/// What a checkpoint that all ranks have staged is committed with.
struct CommitRequest {
  CheckpointOrdinal checkpoint{};  ///< As in `Report::checkpoint`.
  std::uint64_t training_iteration{};
  double time_total_s{};
  WorldSize world_size{};
  Metrics metrics;
  std::vector<CheckpointRef> parts;                  ///< One of every rank, in any order.
  std::vector<std::uint64_t> training_iterations{};  ///< Reports of each rank.
  std::uint64_t seed{};
  std::map<std::string, std::uint64_t> dataset_rows{};   ///< By name.
  std::map<std::string, std::string> dataset_digests{};  ///< By name.
  std::vector<std::uint64_t> kept_reports{};             ///< Of each rank, in the run's history until this one.
  std::map<std::string, std::string> run_metadata{};     ///< As `RunConfig::metadata`.
  bool handed_over = false;                              ///< As in `Manifest`.
};

/// One rank's part of a checkpoint, while it is staged.
struct StagedPart {
  CheckpointOrdinal checkpoint{};
  Rank rank{};
};

/// A file of a staged part.
struct StagedFile {
  Rank rank{};  ///< Who staged it.
  std::uint64_t size_bytes{};
  std::string xxh3;  ///< As in `FileEntry`.
};

/// A checkpoint of which every rank has staged its part, to be shown under its number.
struct StagedCheckpoint {
  CheckpointOrdinal checkpoint{};
  CheckpointNumber number{};
  std::map<std::string, StagedFile> files;  ///< By the names that they have in the checkpoint.
  std::string manifest;                     ///< What its file manifest.json holds.
};

/// Where the checkpoints of one run lie.
///
/// Workers stage their parts where no reader takes them for a checkpoint; the controller commits what all have staged
/// in one step, once everything in it is durable. So a crash at any time leaves whole checkpoints and leftovers that
/// `sweep` removes, and nothing in between. A part that an earlier start of the run has staged is not seen.
///
/// A model of this class, `DirectoryStore` for one, keeps bytes under names: it overrides the functions of the second
/// half. What is compared, counted and recorded is the same in every store, and done here. Each process of a job has
/// its own object; rank 0's commits and removes, all of them stage and read. The header
/// raytrain/testing/checkpoint_store_conformance.hpp tells whether a model does what is asked here.
///
/// Threads: `stage` and `write_part` from any thread, each rank on one at a time; `open` and `files_of` from any;
///          everything else on one at a time.
class CheckpointStore {
 public:
  CheckpointStore() = default;
  CheckpointStore(CheckpointStore const&) = delete;
  auto operator=(CheckpointStore const&) -> CheckpointStore& = delete;
  virtual ~CheckpointStore() = default;

  /// From now on all belongs to this start of the run. Checkpoints of another run than `run_id` are refused from here
  /// on; empty: whoever's is taken. Before it only `location`, `numbers`, `files_of`, `check_usable`, `check_clearable`
  /// and `clear` are called.
  ///
  /// Errors: `invalid_call` for a second time.
  virtual void begin(StartId start, std::string run_id);

  /// Writes one rank's part durably.
  ///
  /// Errors: `io`, and then nothing of the part is left; `invalid_report` for a name that is too long below the rank's
  /// folder; `invalid_call` for a draft that is not filled.
  auto stage(CheckpointDraft const& draft, Rank rank, CheckpointOrdinal checkpoint) -> CheckpointRef;

  /// Makes one checkpoint of what all ranks have staged; it is durable when this returns its number in the store.
  ///
  /// Errors: `rank_mismatch` for two ranks that wrote the same file or set a metadata key to different values, and for
  /// a rank without a part, naming them; `invalid_call` for a part that this start has not staged, and when a later
  /// start has committed; `io`. After an error no checkpoint was added, and its parts are good for nothing but
  /// `discard`.
  auto commit(CommitRequest const& request) -> CheckpointNumber;

  /// Errors: `not_found`; `corrupt_checkpoint` when its manifest is damaged or another one's; `foreign_run` for one of
  /// another run, or by a newer raytrain; `io`.
  [[nodiscard]] auto open(CheckpointNumber number) const -> Checkpoint;

  /// Committed checkpoints, oldest first, without those that are damaged, another run's or by a newer raytrain:
  /// `newest_valid` tells of them.
  ///
  /// Errors: `io`.
  [[nodiscard]] auto list() const -> std::vector<Checkpoint>;

  /// The newest checkpoint of which every byte is as it was written; none if there are none at all.
  ///
  /// Tells `on_skipped` of each newer one that is damaged, where it lies, and why. For the one that is `kept` in memory
  /// it only looks whether all files are there: whoever reads one verifies it.
  /// Errors: `corrupt_checkpoint` when there are checkpoints and all are damaged; `foreign_run` for one of another run,
  /// or by a newer raytrain; `io` for one that cannot be read now, which may be whole.
  /// Cost: reads every file of the checkpoint.
  [[nodiscard]] auto newest_valid(std::function<void(CheckpointNumber number, std::string const& location,
                                                     std::string_view reason)> const& on_skipped,
                                  std::optional<CheckpointNumber> kept = std::nullopt) const
      -> std::optional<Checkpoint>;

  // What a model does.

  /// Where its checkpoints lie, as people are told: a path or an address.
  [[nodiscard]] virtual auto location() const -> std::string = 0;

  /// Of what has been published and not removed, in ascending order, whole or not; none where nothing is yet.
  ///
  /// Errors: `io`.
  [[nodiscard]] virtual auto numbers() const -> std::vector<CheckpointNumber> = 0;

  /// To read that checkpoint by, be it there or not; never null. It may outlive the store.
  [[nodiscard]] virtual auto files_of(CheckpointNumber number) const -> std::shared_ptr<CheckpointFiles const> = 0;

  /// Writes the files of one part durably, in place of an earlier one of the same name, and returns their checksums
  /// (XXH3-128, 32 hexadecimal digits) by their names.
  ///
  /// Errors: `io`, and then nothing of the part is left.
  virtual auto write_part(StagedPart const& part, std::map<std::string, CheckpointDraft::Content> const& files)
      -> std::map<std::string, std::string> = 0;

  /// Makes a checkpoint of staged files and a manifest. Before it returns readers see nothing of it; afterwards it is
  /// whole and durable under its number, which was never used.
  ///
  /// Errors: `invalid_call` for a file that this start has not staged, or not of that size; `io`. Then there is no
  /// checkpoint of that number.
  virtual void publish(StagedCheckpoint const& staged) = 0;

  /// Forgets what was staged of a checkpoint, if anything was. What cannot be removed is left to `sweep`.
  virtual void discard(CheckpointOrdinal checkpoint) = 0;

  /// Errors: `not_found` for a number that is not there; `io`. A crash on the way leaves the whole checkpoint or none.
  virtual void remove(CheckpointNumber number) = 0;

  /// Removes what crashes of earlier starts left behind, and nothing else.
  ///
  /// Errors: `io`.
  virtual void sweep() = 0;

  /// Called at a start before anything is changed, unless that deletes the run: throws where the store cannot be used
  /// as it is.
  virtual void check_usable() const {}

  /// Called before `clear`: throws where that would delete something else than checkpoints. Errors: `foreign_run`.
  virtual void check_clearable() const {}

  /// Makes the store ready to take parts. Returns whether there was none before: if the start fails then, `clear` takes
  /// it back.
  ///
  /// Errors: `io`.
  virtual auto create() -> bool { return false; }

  /// Deletes every checkpoint, of any run, and everything else of the store (`Resume::fresh`). After a crash on the way
  /// it is called again.
  ///
  /// Errors: `io`.
  virtual void clear() = 0;

 protected:
  [[nodiscard]] auto start() const noexcept -> StartId const& { return start_; }

  /// "committing checkpoint 3 of this start"
  [[nodiscard]] static auto committing(CheckpointOrdinal checkpoint) -> std::string;

 private:
  using Files = std::map<std::string, StagedFile>;

  [[nodiscard]] auto checked_files(CheckpointNumber number) const -> std::shared_ptr<CheckpointFiles const>;
  [[nodiscard]] auto sorted_numbers() const -> std::vector<CheckpointNumber>;

  void check_still_ours(CommitRequest const& request, CheckpointNumber newest) const;
  static void check_ranks(CommitRequest const& request);
  [[nodiscard]] static auto merged_metadata(CommitRequest const& request) -> std::map<std::string, std::string>;
  [[nodiscard]] static auto merged_files(CommitRequest const& request) -> Files;
  static void check_sharded_arrays(CommitRequest const& request);
  [[nodiscard]] auto manifest_of(CommitRequest const& request, CheckpointNumber number, Files const& files) const
      -> Manifest;

  bool has_begun_ = false;
  StartId start_{0};
  std::string run_id_;
  CheckpointNumber attempted_{};    // the last one that was to be published
  CheckpointNumber last_number_{};  // never given again, though somebody may have removed that checkpoint
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/checkpoint/checkpoint_store-inl.hpp>
#endif
