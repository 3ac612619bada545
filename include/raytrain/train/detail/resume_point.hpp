// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/checkpoint/checkpoint_store.hpp>
#include <raytrain/config/checkpoint_source.hpp>
#include <raytrain/core/identifiers.hpp>

namespace raytrain::detail {

/// The checkpoint that `RunConfig::resume_from_checkpoint` names, of which only the manifest is read; none if it names
/// none.
///
/// Errors: as `Checkpoint::from_directory`; `corrupt_checkpoint` for a folder without a manifest, of which nobody knows
/// what should be in it.
[[nodiscard]] auto open_source(CheckpointSource const& source) -> std::optional<Checkpoint>;

/// The same, with every file verified. Errors: also as `Checkpoint::verify`.
[[nodiscard]] auto verified_source(CheckpointSource const& source) -> std::optional<Checkpoint>;

/// Where it lies; empty if there is none.
[[nodiscard]] auto location_of(CheckpointSource const& source) -> std::string;

/// Where it lies, and of which run it is, or why that cannot be said: the text by which processes compare theirs.
[[nodiscard]] auto source_text(CheckpointSource const& source) -> std::string;

/// Where the workers of a run begin: at its own newest checkpoint that is whole, else at another run's, else at
/// nothing.
///
/// Threads: one at a time.
class ResumePoint {
 public:
  /// `store`: the run's own. `source`: `RunConfig::resume_from_checkpoint`. `damaged`: the run's checkpoints that
  /// earlier starts have found so.
  ResumePoint(CheckpointStore& store, CheckpointSource source, std::set<CheckpointNumber> damaged = {})
      : store_{store}, source_{std::move(source)}, skipped_{std::move(damaged)} {}

  /// Looks for the checkpoint, and verifies it unless it is `kept` in memory.
  ///
  /// Errors: as `CheckpointStore::newest_valid` and `verified_source`.
  void find(std::optional<CheckpointNumber> kept = std::nullopt);

  /// The run's own, or the other one's.
  [[nodiscard]] auto checkpoint() const noexcept -> std::optional<Checkpoint> const& { return own_ ? own_ : other_; }
  [[nodiscard]] auto own() const noexcept -> std::optional<Checkpoint> const& { return own_; }
  [[nodiscard]] auto other() const noexcept -> std::optional<Checkpoint> const& { return other_; }
  /// Reports of the run's rank 0 until there.
  [[nodiscard]] auto training_iteration() const noexcept -> std::uint64_t {
    return own_ ? own_->training_iteration() : 0;
  }

  /// What a person should know of how it was found, each once.
  [[nodiscard]] auto take_warnings() -> std::vector<std::string> { return std::exchange(warnings_, {}); }

  /// What was found damaged, by earlier starts, too.
  [[nodiscard]] auto skipped() const noexcept -> std::set<CheckpointNumber> const& { return skipped_; }

  /// A checkpoint has this number now: somebody may have removed one that was damaged.
  void forget_damage(CheckpointNumber number) { skipped_.erase(number); }

  /// Those of the run, without what was found damaged.
  [[nodiscard]] auto whole_checkpoints() const -> std::vector<Checkpoint>;

 private:
  void forget_what_is_whole_again();

  void warn_of_older_one_of_this_run();

  CheckpointStore& store_;
  CheckpointSource source_;
  std::optional<Checkpoint> own_;
  std::optional<Checkpoint> other_;
  std::set<CheckpointNumber> skipped_;
  std::set<CheckpointNumber> told_;  ///< Those of which somebody was told in this start.
  std::vector<std::string> warnings_;
  bool warned_of_source_ = false;
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/train/detail/resume_point-inl.hpp>
#endif
