// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <ranges>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/checkpoint/checkpoint_store.hpp>
#include <raytrain/checkpoint/run_directory.hpp>
#include <raytrain/checkpoint/run_record.hpp>
#include <raytrain/config/checkpoint_config.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/metrics.hpp>
#include <raytrain/message/message.hpp>
#include <raytrain/train/controller_events.hpp>
#include <raytrain/train/result.hpp>
#include <raytrain/train/run_history.hpp>

namespace raytrain {

RAYTRAIN_INLINE auto TrainingFailed::describe(std::vector<ErrorInfo> const& failures) -> std::string {
  struct Cause {
    std::string text;
    std::vector<std::string> who;
  };
  std::vector<Cause> causes;
  for (auto const& error : failures) {
    auto who = error.rank ? "rank " + std::to_string(error.rank->value) : std::string{"the controller"};
    if (!error.host.empty()) who += " on " + error.host;
    auto const what = error.text();
    auto cause = std::ranges::find(causes, what, &Cause::text);
    if (cause == causes.end()) cause = causes.insert(cause, Cause{what, {}});
    if (std::ranges::find(cause->who, who) == cause->who.end()) cause->who.push_back(std::move(who));
  }
  std::string text;
  for (auto const& cause : causes) {
    if (!text.empty()) text += "; ";
    for (auto const& who : cause.who) text += (&who == &cause.who.front() ? "" : ", ") + who;
    text += ": " + cause.text;
  }
  return text;
}

RAYTRAIN_INLINE auto Result::checkpoint() const -> std::optional<Checkpoint> {
  return checkpoints.empty() ? std::nullopt : std::optional{checkpoints.back()};
}

RAYTRAIN_INLINE auto Result::best_checkpoint(std::string_view metric, ScoreOrder order) const
    -> std::optional<Checkpoint> {
  Checkpoint const* best = nullptr;
  auto best_score = 0.0;
  Checkpoint const* last_reported = nullptr;
  for (auto const& candidate : checkpoints) {
    if (candidate.is_handed_over()) continue;
    last_reported = &candidate;
    auto const score = candidate.metrics().number(metric);
    if (!score || !std::isfinite(*score)) continue;
    auto const better = best == nullptr || (order == ScoreOrder::max ? *score >= best_score : *score <= best_score);
    if (!better) continue;
    best = &candidate;
    best_score = *score;
  }
  if (best != nullptr) return *best;
  if (last_reported == nullptr) return std::nullopt;
  throw Error{Errc::not_found, "Result::best_checkpoint(\"" + std::string{metric} + "\")",
              "no checkpoint has a finite number of that name; there are " + last_reported->metrics().names(),
              "name one of them"};
}

RAYTRAIN_INLINE auto Result::all_reports() const -> std::vector<Report> {
  std::vector<Report> reports;
  if (path.empty()) return reports;  // a run that came to no folder
  for_each_report(path / progress_file_name,
                  [&](Report report, Metrics const&) { reports.push_back(std::move(report)); });
  std::map<Rank, std::uint64_t> repeated_from;
  std::vector<Report> last_first;
  for (auto& report : std::views::reverse(reports)) {
    auto const [first, is_last] = repeated_from.try_emplace(report.rank, report.training_iteration);
    if (!is_last && report.training_iteration >= first->second) continue;
    first->second = report.training_iteration;
    last_first.push_back(std::move(report));
  }
  std::ranges::reverse(last_first);
  return last_first;
}

RAYTRAIN_INLINE auto Result::from_path(std::filesystem::path const& run_path, MakeCheckpointStore const& make_store)
    -> Result {
  auto const record = read_run_record(run_path);
  if (std::filesystem::exists(run_path / deleting_file_name)) {
    throw Error{Errc::not_found, "Result::from_path('" + run_path.string() + "')",
                "Resume::fresh has begun to delete this run", "start it again"};
  }
  Result result;
  result.world_size = WorldSize{record.world_size};
  result.path = run_path;
  result.state = run_state_from(record.state);
  result.error = record.error;
  result.metadata = record.metadata.value_or(std::map<std::string, std::string>{});
  RunHistory::read(run_path / progress_file_name).move_to(result);
  // As a run names its folder, so that a store which is found by the path is the same one.
  auto const path = std::filesystem::absolute(run_path / "").lexically_normal().parent_path();
  auto const store = open_store(make_store, path);
  store->begin(record.starts, record.run_id.value_or(""));
  result.checkpoints = store->list();
  if (result.checkpoints.empty() && record.has_checkpoints.value_or(false)) {
    result.warnings.push_back("by its run.json this run has checkpoints, and there are none in '" + store->location() +
                              "': name the store that it trained with, as CheckpointConfig::store makes it");
  }
  auto const damaged = damaged_checkpoints_in(record);
  std::erase_if(result.checkpoints, [&](auto const& it) { return damaged.contains(it.number()); });
  return result;
}

}  // namespace raytrain
