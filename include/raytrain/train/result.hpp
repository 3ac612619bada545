// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/checkpoint/directory_store.hpp>
#include <raytrain/checkpoint/run_record.hpp>
#include <raytrain/config/checkpoint_config.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/metrics.hpp>
#include <raytrain/core/rank.hpp>
#include <raytrain/message/message.hpp>
#include <raytrain/train/controller_io.hpp>
#include <raytrain/train/run_history.hpp>

namespace raytrain {

/// How long the parts of one `fit()` took, in seconds.
struct Timings {
  double to_workers_s = 0;       ///< From the call until every worker had started.
  double to_first_report_s = 0;  ///< From the call until the first report was handled; 0 if there was none.
  double total_s = 0;            ///< The whole call.
};

/// What a run reached.
struct Result {
  RunState state = RunState::initializing;  ///< `finished`, `aborted` (stopped; the next start goes on) or `errored`.
  Metrics metrics;                          ///< Rank 0's last report, automatic metrics included.
  std::vector<Report> history;              ///< All reports of all ranks in the order of their handling.
  std::vector<Checkpoint> checkpoints;      ///< Those that were kept, oldest first.
  WorldSize world_size{};                   ///< Workers of the last start.
  std::filesystem::path path;               ///< Folder of the run.
  std::string error;                        ///< Cause of a run that failed; empty otherwise.
  std::vector<std::string> warnings;        ///< Everything that callbacks were warned of.
  bool nothing_left = false;                ///< The run had finished before, and nothing was left to train.
  Timings timings;

  /// Newest checkpoint.
  [[nodiscard]] auto checkpoint() const -> std::optional<Checkpoint> {
    return checkpoints.empty() ? std::nullopt : std::optional{checkpoints.back()};
  }

  /// Kept checkpoint with the best value of a metric, the newer of equals; missing values and those that are not finite
  /// do not count.
  ///
  /// Errors: `not_found` when checkpoints are kept and none has such a value, listing their metrics.
  [[nodiscard]] auto best_checkpoint(std::string_view metric, ScoreOrder order) const -> std::optional<Checkpoint> {
    Checkpoint const* best = nullptr;
    auto best_score = 0.0;
    for (auto const& candidate : checkpoints) {
      auto const score = candidate.metrics().number(metric);
      if (!score || !std::isfinite(*score)) continue;
      auto const better = best == nullptr || (order == ScoreOrder::max ? *score >= best_score : *score <= best_score);
      if (!better) continue;
      best = &candidate;
      best_score = *score;
    }
    if (best != nullptr) return *best;
    if (checkpoints.empty()) return std::nullopt;
    throw Error{Errc::not_found, "Result::best_checkpoint(\"" + std::string{metric} + "\")",
                "no checkpoint has a finite number of that name; there are " + checkpoints.back().metrics().names(),
                "name one of them"};
  }

  /// Last report of every rank that reported and that the last start had, in rank order.
  [[nodiscard]] auto last_reports() const -> std::vector<Report> {
    std::vector<Report> last;
    for (auto const& record : history) {
      if (record.rank.value >= world_size.value) continue;
      auto const place = std::ranges::lower_bound(last, record.rank, {}, &Report::rank);
      if (place != last.end() && place->rank == record.rank) {
        *place = record;
      } else {
        last.insert(place, record);
      }
    }
    return last;
  }

  /// Reads a finished, stopped or broken run back from its folder. Warnings and timings are not stored.
  ///
  /// Errors: `not_found` when the folder holds no run.
  [[nodiscard]] static auto from_path(std::filesystem::path const& run_path) -> Result;
};

inline auto Result::from_path(std::filesystem::path const& run_path) -> Result {
  auto const record = read_run_record(run_path);
  Result result;
  result.world_size = WorldSize{record.world_size};
  result.path = run_path;
  result.state = run_state_from(record.state);
  result.error = record.error;
  auto history = RunHistory::read(run_path / progress_file_name);
  result.metrics = history.last_metrics();
  result.history = history.take();
  DirectoryStore const store{run_path / checkpoints_folder_name, record.attempts, record.run_id.value_or("")};
  for (auto const& info : store.list()) result.checkpoints.push_back(Checkpoint::from_directory(info.path));
  return result;
}

}  // namespace raytrain
