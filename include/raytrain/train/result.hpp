// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/config/checkpoint_config.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/metrics.hpp>
#include <raytrain/message/message.hpp>
#include <raytrain/train/run_state.hpp>

namespace raytrain {

/// How long the parts of one `fit()` took, in seconds.
struct Timings {
  double to_workers_s = 0;       ///< From the call until every worker had started.
  double to_first_report_s = 0;  ///< From the call until the first report was handled; 0 if there was none.
  double total_s = 0;            ///< The whole call.
};

/// What a run reached.
struct Result {
  static constexpr std::size_t max_attempts = 1000;

  RunState state = RunState::initializing;  ///< `finished`, `aborted` (stopped; the next start resumes) or `errored`.
  Metrics metrics;                          ///< Rank 0's last report, automatic metrics included.
  std::vector<Report> history;              ///< Rank 0's reports, at most the last 100,000.
  std::vector<Report> last_reports;     ///< Of every rank that reported and that the last attempt had, in rank order.
  std::vector<Checkpoint> checkpoints;  ///< Those that were kept, oldest first.
  WorldSize world_size{};               ///< Workers of the last attempt.
  std::filesystem::path path;           ///< Folder of the run.
  std::map<std::string, std::string> metadata;  ///< `RunConfig::metadata` of the last start.
  std::string error;                            ///< Cause of a run that failed; empty otherwise.
  std::vector<std::string> warnings;            ///< What callbacks were warned of: the first 10,000.
  /// Of this `fit()`: one, and one more for each time that workers were started again, after a failure, or since their
  /// number was changed or a process was taken away; at most the last 1000.
  std::vector<AttemptInfo> attempts;
  bool nothing_left = false;  ///< The run had finished before, and nothing was left to train.
  Timings timings;

  /// Newest checkpoint.
  [[nodiscard]] auto checkpoint() const -> std::optional<Checkpoint>;

  /// Kept checkpoint with the best value of a metric, the newer of equals; missing values and those that are not finite
  /// do not count, nor do checkpoints that were handed over without a report.
  ///
  /// Errors: `not_found` when checkpoints are kept and none has such a value, listing their metrics.
  [[nodiscard]] auto best_checkpoint(std::string_view metric, ScoreOrder order) const -> std::optional<Checkpoint>;

  /// Reads the reports of all ranks from the run's folder, in the order of their handling, without those that a later
  /// start has repeated. None when the file progress.jsonl is gone. What is read back has no `Report::checkpoint`, as
  /// the reports of earlier starts and those on other ranks of a job than 0.
  ///
  /// Errors: `io`.
  [[nodiscard]] auto all_reports() const -> std::vector<Report>;

  /// Reads a finished, stopped or broken run back from its folder. Warnings, attempts and timings are not stored.
  /// `make_store`: as `CheckpointConfig::store` of the run.
  ///
  /// Errors: `not_found` when the folder holds no run.
  [[nodiscard]] static auto from_path(std::filesystem::path const& run_path, MakeCheckpointStore const& make_store = {})
      -> Result;
};

/// Thrown by `fit()` when a worker failed: every rank's cause, and what was reached until then.
class TrainingFailed : public Error {
 public:
  TrainingFailed(std::vector<ErrorInfo> failures, Result result)
      : Error{Errc::worker_failed, "training '" + result.path.filename().string() + "'", describe(failures),
              result.checkpoints.empty() ? "it has left no checkpoint in " + result.path.string() +
                                               "; TrainingFailed::result() has the reports"
                                         : "start it again to go on from " + result.checkpoints.back().location()},
        failures_{std::move(failures)},
        result_{std::move(result)} {}

  /// In the order of their arrival: the first one is the cause. One without a rank is no worker's: the run's own disk,
  /// a critical callback.
  [[nodiscard]] auto failures() const noexcept -> std::vector<ErrorInfo> const& { return failures_; }
  [[nodiscard]] auto result() const noexcept -> Result const& { return result_; }

  /// "rank 1 on node7: out of range; rank 0 ...". Ranks that failed alike are named together; what is no rank's is
  /// that of "the controller on node7".
  [[nodiscard]] static auto describe(std::vector<ErrorInfo> const& failures) -> std::string;

 private:
  std::vector<ErrorInfo> failures_;
  Result result_;
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/train/result-inl.hpp>
#endif
