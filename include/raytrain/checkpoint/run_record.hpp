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
#include <vector>

#include <raytrain/core/identifiers.hpp>
#include <raytrain/message/fields.hpp>

namespace raytrain {

// What raytrain owns in the folder of a run.
inline constexpr std::string_view run_record_name = "run.json";
inline constexpr std::string_view progress_file_name = "progress.jsonl";
inline constexpr std::string_view csv_file_name = "progress.csv";
/// In the folder of a run that `Resume::fresh` has begun to delete.
inline constexpr std::string_view deleting_file_name = ".deleting";
inline constexpr std::string_view checkpoints_folder_name = "checkpoints";

/// Whose run a folder holds. All three must be the same for one start to go on from another.
struct RunIdentity {
  std::string program;
  std::string backend;
  std::vector<std::string> report_fields;  ///< Names in rank 0's first report, in its order; empty before it.
  friend auto operator==(RunIdentity const&, RunIdentity const&) -> bool = default;

  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(program), CEREAL_NVP(backend), CEREAL_NVP(report_fields));
  }
};

/// "program 'a', backend 'b', report fields loss, accuracy"
[[nodiscard]] auto to_string(RunIdentity const& identity) -> std::string;

/// Content of run.json.
struct RunRecord {
  static constexpr std::uint32_t newest_format = 4;

  std::uint32_t format = newest_format;
  std::string raytrain_version;
  std::optional<std::string> run_id;    ///< What its checkpoints name; unset in format 1.
  std::optional<bool> has_checkpoints;  ///< One was committed; unset in format 1.
  RunIdentity identity;
  std::string state;       ///< "running" from a start on; then what `RunDirectory::set_state` was told.
  std::string error;       ///< Why the last start ended, if it failed.
  std::uint64_t starts{};  ///< So far.
  std::uint32_t world_size{};
  std::uint64_t seed{};
  std::optional<std::map<std::string, std::string>> metadata;  ///< Of the last start; unset before format 3.
  std::vector<std::string> hosts;
  /// Numbers of checkpoints that a start has found damaged and skipped; unset before format 4.
  std::optional<std::vector<std::uint64_t>> damaged;
  std::string started_at;  ///< The last start, UTC.
  friend auto operator==(RunRecord const&, RunRecord const&) -> bool = default;

  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(format), CEREAL_NVP(raytrain_version), CEREAL_NVP(run_id), CEREAL_NVP(has_checkpoints),
      CEREAL_NVP(identity), CEREAL_NVP(state), CEREAL_NVP(error), cereal::make_nvp("attempts", starts),
      CEREAL_NVP(world_size), CEREAL_NVP(seed), CEREAL_NVP(metadata), CEREAL_NVP(hosts), CEREAL_NVP(damaged),
      CEREAL_NVP(started_at));
  }
};

/// Reads run.json of a run's folder.
///
/// Errors: `not_found` when the folder holds no run; `foreign_run` when its record is damaged or of a newer version;
/// `io`.
[[nodiscard]] auto read_run_record(std::filesystem::path const& run_path) -> RunRecord;

/// Checkpoints that a start has found damaged, by the record.
[[nodiscard]] auto damaged_checkpoints_in(RunRecord const& record) -> std::set<CheckpointNumber>;

/// Calls `on_line` for each line of progress.jsonl, without its end; never when there is no such file. Errors: `io`.
void for_each_progress_line(std::filesystem::path const& progress_file,
                            std::function<void(std::string_view)> const& on_line);

/// Names of report fields.
struct ReportFields {
  std::vector<std::string> known;     ///< Of the run; empty: none yet.
  std::vector<std::string> reported;  ///< Of one report.
};

/// Compares the fields of a report with those that the run in a folder is known by. One of the two may lack some that
/// the other one has, as of a validation in every fifth epoch.
///
/// Errors: `foreign_run`, with both.
void check_known_fields(ReportFields const& fields, std::filesystem::path const& run_path);

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/checkpoint/run_record-inl.hpp>
#endif
