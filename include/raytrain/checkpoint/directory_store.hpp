// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/checkpoint/checkpoint_draft.hpp>
#include <raytrain/checkpoint/detail/durable_files.hpp>
#include <raytrain/checkpoint/detail/file_system.hpp>
#include <raytrain/checkpoint/generation.hpp>
#include <raytrain/checkpoint/retention.hpp>
#include <raytrain/config/checkpoint_config.hpp>
#include <raytrain/core/checkpoint_number.hpp>
#include <raytrain/core/metrics.hpp>
#include <raytrain/core/rank.hpp>
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
};

/// A committed checkpoint, by its manifest; its files were not looked at.
struct CheckpointInfo {
  CheckpointNumber number{};
  std::filesystem::path path;
  std::uint64_t training_iteration{};
  Metrics metrics;
};

/// The checkpoints of a run in one directory.
///
/// Workers stage their parts below a name that is never taken for a checkpoint; the controller commits what all have
/// staged by one rename, after everything in it is durable. So a crash at any time leaves whole checkpoints and
/// leftovers that `sweep` removes, and nothing in between. A part that was staged in an earlier generation, which is
/// an earlier start of the run, is not seen.
///
/// Threads: `stage` from any thread, each rank on one at a time; everything else on one thread at a time.
class DirectoryStore {
 public:
  /// `directory` must exist before anything is staged. Checkpoints of another run than `run_id` are refused; empty:
  /// whoever's is taken.
  DirectoryStore(std::filesystem::path directory, Generation generation, std::string run_id = {},
                 detail::FileSystem& files = detail::system_files())
      : directory_{std::move(directory)},
        generation_{std::move(generation)},
        run_id_{std::move(run_id)},
        files_{files} {}

  [[nodiscard]] auto path_of(CheckpointNumber number) const -> std::filesystem::path;

  /// Writes one rank's part durably, and hashes it on the way.
  ///
  /// Errors: `io`, and then nothing of the part is left; `invalid_report` for a name that is too long below the rank's
  /// folder; `invalid_call` for a draft that is not materialized.
  auto stage(CheckpointDraft const& draft, Rank rank, CheckpointOrdinal checkpoint) -> CheckpointRef;

  /// Makes one checkpoint of what all ranks have staged; it is durable when this returns.
  ///
  /// Errors: `rank_mismatch` for two ranks that wrote the same file or set a metadata key to different values, and for
  /// a rank without a part, naming them; `invalid_call` for a part that this generation did not stage, and when a later
  /// generation has committed; `io`. After an error no checkpoint was added, and its parts are good for nothing but
  /// `discard`.
  auto commit(CommitRequest const& request) -> Checkpoint;

  /// Forgets what was staged of a checkpoint. What cannot be removed is left to a later generation's `sweep`.
  void discard(CheckpointOrdinal checkpoint) { detail::try_remove_tree(files_, staging(checkpoint)); }

  /// Committed checkpoints by number, without those whose manifest is damaged or of another run: `newest_valid` tells
  /// of them.
  [[nodiscard]] auto list() const -> std::vector<CheckpointInfo>;

  /// The newest checkpoint of which every byte is as it was written; none if there are none at all.
  ///
  /// Tells `on_skipped` of each newer one that is damaged, and why.
  /// Errors: `corrupt_checkpoint` when there are checkpoints and all are damaged; `foreign_run` for one of another run;
  /// `io` for one that cannot be read now, which may be whole.
  /// Cost: reads every file of the checkpoint.
  [[nodiscard]] auto newest_valid(
      std::function<void(std::filesystem::path const& path, std::string_view reason)> const& on_skipped) const
      -> std::optional<Checkpoint>;

  /// Errors: `not_found` for a number that is not there; `io`. A crash on the way leaves the whole checkpoint or none.
  void remove(CheckpointNumber number);

  /// Removes what crashes left behind in earlier generations.
  ///
  /// Errors: `io`.
  void sweep();

 private:
  /// Where each file of a checkpoint comes from.
  struct Part {
    Rank rank;
    FileEntry const* file{};
  };
  using Parts = std::map<std::string, Part>;

  [[nodiscard]] auto staging(CheckpointOrdinal checkpoint) const -> std::filesystem::path;

  [[nodiscard]] auto numbers() const -> std::vector<CheckpointNumber>;

  [[nodiscard]] auto open(CheckpointNumber number) const -> Checkpoint;

  // Makes the folders that lead from `root` to a file, each once.
  void make_folders(std::filesystem::path const& root, std::string const& name, std::set<std::string>& made);

  void check_still_ours(CommitRequest const& request, CheckpointNumber newest) const;
  // Its number in the store, counted over all starts, is known only in the end.
  static auto committing(CommitRequest const& request) -> std::string;
  static void check_ranks(CommitRequest const& request);
  [[nodiscard]] static auto merged_metadata(CommitRequest const& request) -> std::map<std::string, std::string>;
  [[nodiscard]] static auto merged_files(CommitRequest const& request) -> Parts;
  void check_staged(CommitRequest const& request, Parts const& parts) const;

  std::filesystem::path directory_;
  Generation generation_;
  std::string run_id_;
  CheckpointNumber last_number_{};  // never given again, though somebody may have removed that checkpoint
  detail::FileSystem& files_;
};

/// What `checkpoints_to_delete` needs to know of a store's checkpoints.
[[nodiscard]] auto scored(std::vector<CheckpointInfo> const& infos, CheckpointConfig const& config)
    -> std::vector<ScoredCheckpoint>;

// A lock can be lost: its file removed, or a file system of a network without locks.

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/checkpoint/directory_store-inl.hpp>
#endif
