// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>

#include <raytrain/core/bytes.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain {

/// What one process has in memory of the newest checkpoint of a run, and of those that are yet to be committed, for
/// whoever reads it next: `CheckpointConfig::memory_copies`.
///
/// Threads: every function from any thread.
class CheckpointCopies {
 public:
  /// By the names that they have in the checkpoint.
  using Files = std::map<std::string, SharedBytes>;

  /// Of one that is yet to be committed; those of several ranks of the process come together.
  void add(CheckpointOrdinal checkpoint, Files files);

  /// That one will never be committed.
  void drop(CheckpointOrdinal checkpoint);

  /// The controller has told what became of a checkpoint. If it is committed, it is kept in place of all earlier ones;
  /// else it is dropped.
  void settle(CheckpointSettled const& settled);

  /// Lets go of all that are yet to be committed: the attempt that made them is over.
  void drop_uncommitted();

  /// Keeps a file of the committed checkpoint from which the run goes on. Files of any other committed one are let go
  /// of.
  void add(CheckpointNumber number, std::string name, SharedBytes content);

  /// A file of a committed one, as it was given; none if it is not here.
  [[nodiscard]] auto find(CheckpointNumber number, std::string const& name) const -> std::optional<SharedBytes>;

 private:
  mutable std::mutex mutex_;
  std::map<CheckpointOrdinal, Files> uncommitted_;
  CheckpointNumber number_{};  // 0: none
  Files files_;                // of that one
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/checkpoint/checkpoint_copies-inl.hpp>
#endif
