// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/checkpoint/checkpoint_store.hpp>
#include <raytrain/checkpoint/detail/directory_lock.hpp>
#include <raytrain/checkpoint/detail/file_system.hpp>
#include <raytrain/checkpoint/run_record.hpp>
#include <raytrain/config/checkpoint_config.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain {

/// Which folder a start of a run opens, and as whom.
struct RunStart {
  std::filesystem::path storage_path{};
  std::string name{};
  std::string program{};
  std::string backend{};
  bool fresh = false;  ///< Delete the run that is there, whoever's it is.
  WorldSize world_size{1};
  std::uint64_t seed = 0;
  std::map<std::string, std::string> metadata{};  ///< As `RunConfig::metadata`.
  std::string raytrain_version{};
  std::vector<std::string> hosts{};  ///< Where its workers run; empty: this host.
  MakeCheckpointStore make_store{};  ///< As `CheckpointConfig::store`.
  std::string begins_from{};         ///< Where the checkpoint lies that it may need, and must not delete.
};

/// The store of the run in a folder: what the settings make, or else the directory checkpoints/ in it.
///
/// Errors: `invalid_config` when they make none, and what they throw.
[[nodiscard]] auto open_store(MakeCheckpointStore const& make, std::filesystem::path const& run_path,
                              detail::FileSystem& files = detail::system_files()) -> std::shared_ptr<CheckpointStore>;

/// The folder of a run while this process trains in it: <storage_path>/<name>/.
///
/// Holds a lock, so that no two processes train in one folder: on one host always, on several where their file system
/// locks files and .lock stays. run.json changes in one step: whatever happens, it is the old or the new one.
///
/// Threads: one at a time.
class RunDirectory {
 public:
  /// Locks the folder, and deletes the run in it if the start is `fresh`. Records nothing before `record_start`: if
  /// this is destroyed before, what it has created is removed again; what `fresh` has deleted stays deleted.
  ///
  /// Errors: `invalid_config` when the storage path leads through a file; `foreign_run` for the run of another program
  /// or backend, and for a damaged record; `invalid_call` when another process trains in it; `io` when it cannot be
  /// written, for want of rights or room, and for something else in place of a file or folder of ours.
  explicit RunDirectory(RunStart start, detail::FileSystem& files = detail::system_files());

  RunDirectory(RunDirectory&&) noexcept = default;
  auto operator=(RunDirectory&&) noexcept -> RunDirectory& = default;

  [[nodiscard]] auto path() const noexcept -> std::filesystem::path const& { return path_; }
  [[nodiscard]] auto name() const -> std::string { return path_.filename().string(); }
  /// Where its checkpoints lie; it has begun this start.
  [[nodiscard]] auto store() const noexcept -> CheckpointStore& { return *store_; }
  [[nodiscard]] auto progress_path() const -> std::filesystem::path { return path_ / progress_file_name; }

  /// This start. Its number counts on after `fresh`, unless the record was damaged, so that it also tells this start's
  /// files from those of a worker that the deleted run left running.
  [[nodiscard]] auto start() const -> StartId { return {record_.starts, start_id_}; }
  /// What the manifests of this run's checkpoints name. Stays when the folder is moved, renamed or copied.
  [[nodiscard]] auto run_id() const -> std::string { return record_.run_id.value_or(""); }
  /// State in which the start before this one left the run; empty if there was none, or `fresh`.
  [[nodiscard]] auto previous_state() const noexcept -> std::string const& { return previous_state_; }
  /// Whether this start has deleted a run that an earlier start with `fresh` had not deleted to the end.
  [[nodiscard]] auto completes_deletion() const noexcept -> bool { return completes_deletion_; }
  /// Empty before the run's first report.
  [[nodiscard]] auto report_fields() const noexcept -> std::vector<std::string> const&;

  /// What a worker in another process needs to know of this start, which goes on from `checkpoint`.
  [[nodiscard]] auto begin_message(std::optional<Checkpoint> const& checkpoint) const -> Begin;

  /// Records the start as "running", and creates the store of checkpoints. Durable when it returns.
  ///
  /// Errors: `io`; the record is then the one before, and after `fresh` there is none.
  void record_start();

  /// Makes the fields of the first report part of the run's identity; later ones are compared.
  ///
  /// Errors: `foreign_run`; `io`.
  void record_report_fields(std::vector<std::string> fields);

  /// Remembers that a checkpoint was committed, so that it is missed when all are gone. Writes once in a run.
  ///
  /// Errors: `io`.
  void record_checkpoint();

  /// Checkpoints that this start, or one before it, has found damaged.
  [[nodiscard]] auto damaged_checkpoints() const -> std::set<CheckpointNumber>;

  /// Remembers them for later starts, which verify no checkpoint older than the one that they go on from.
  ///
  /// Errors: `io`.
  void record_damaged_checkpoints(std::set<CheckpointNumber> const& numbers);

  /// Errors: `corrupt_checkpoint` when the run has checkpoints by its record; for a start that has found none.
  void check_none_lost() const;

  /// Records how many workers train, and their hosts in rank order.
  ///
  /// Errors: `io`.
  void record_workers(WorldSize world_size, std::vector<std::string> hosts);

  /// Errors: `io` when the folder was moved, removed or replaced: what is at its path is another start's.
  ///
  /// Threads: any.
  void check_in_place() const;

  /// Records how the run stands, and why if it failed. Durable when it returns.
  ///
  /// Errors: `io`; the record is then the old or the new one.
  void set_state(std::string state, std::string error = {});

 private:
  /// Takes back what a start has created, the last first, unless it is told to keep it.
  class Created {
   public:
    Created() = default;
    Created(Created&& other) noexcept : steps_{std::exchange(other.steps_, {})} {}
    auto operator=(Created&& other) noexcept -> Created& {
      std::swap(steps_, other.steps_);
      return *this;
    }
    ~Created();
    void add(std::function<void()> take_back) { steps_.push_back(std::move(take_back)); }
    void keep() noexcept { steps_.clear(); }

   private:
    std::vector<std::function<void()>> steps_;
  };

  [[nodiscard]] auto record_path() const -> std::filesystem::path { return path_ / run_record_name; }
  /// Says that the run is being deleted.
  [[nodiscard]] auto deleting_path() const -> std::filesystem::path { return path_ / deleting_file_name; }

  void write_record();

  void create_directories();
  void open(RunStart start);
  void check_identity(RunRecord const& found, RunStart const& start) const;
  void check_only_ours(std::string const& begins_from) const;
  void adopt_checkpoints(RunStart const& start);
  void delete_run();

  std::filesystem::path path_;
  detail::FileSystem* files_;
  std::shared_ptr<CheckpointStore> store_;  // never null
  std::optional<detail::DirectoryLock> lock_;
  RunRecord record_;
  bool completes_deletion_ = false;
  bool is_new_ = false;  ///< No run.json is there yet.
  std::string previous_state_;
  std::string start_id_ = fmt::format("{:08x}", std::random_device{}());
  Created created_;  // behind the lock, so that it is taken back while nobody else gets in
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/checkpoint/run_directory-inl.hpp>
#endif
