// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/checkpoint/run_record.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/metrics.hpp>
#include <raytrain/core/rank.hpp>
#include <raytrain/message/json.hpp>
#include <raytrain/message/message.hpp>
#include <raytrain/message/report_line.hpp>
#include <raytrain/train/run_history.hpp>

namespace raytrain {

RAYTRAIN_INLINE void RunHistory::add(Report report, Metrics all) {
  if (report.rank == Rank{0}) last_metrics_ = std::move(all);
  auto& of_rank = ranks_[report.rank];
  if (report.training_iteration <= of_rank.last_iteration) {
    of_rank.reports -= std::erase_if(reports_, [&](Report const& earlier) {
      return earlier.rank == report.rank && earlier.training_iteration >= report.training_iteration;
    });
  }
  of_rank.last_iteration = report.training_iteration;
  ++of_rank.reports;
  reports_.push_back(std::move(report));
}

RAYTRAIN_INLINE auto RunHistory::counts_until(std::vector<std::uint64_t> const& training_iterations) const
    -> std::vector<std::uint64_t> {
  std::vector<std::uint64_t> counts;
  for (std::uint32_t rank = 0; rank < training_iterations.size(); ++rank) {
    auto const known = ranks_.find(Rank{rank});
    auto const of_rank = known == ranks_.end() ? OfRank{} : known->second;
    auto const later = of_rank.last_iteration - std::min(of_rank.last_iteration, training_iterations[rank]);
    counts.push_back(of_rank.reports - std::min(of_rank.reports, later));
  }
  return counts;
}

RAYTRAIN_INLINE auto RunHistory::missing_until(std::optional<Checkpoint> const& checkpoint) const -> std::string {
  std::uint64_t there = 0;
  std::uint64_t due = 0;
  // Of one by a version that did not record it rank 0's are known.
  std::vector<std::uint64_t> wanted(checkpoint ? 1 : 0, checkpoint ? checkpoint->training_iteration() : 0);
  if (checkpoint) wanted = checkpoint->kept_reports().value_or(wanted);
  std::vector<std::uint64_t> kept(wanted.size());
  for (auto const& report : reports_) {
    auto const rank = report.rank;
    if (rank.value < kept.size() && report.training_iteration <= checkpoint->training_iteration(rank)) {
      ++kept[rank.value];
    }
  }
  for (std::size_t rank = 0; rank < wanted.size(); ++rank) {
    there += std::min(kept[rank], wanted[rank]);
    due += wanted[rank];
  }
  std::string text;
  if (there < due) {
    text = "are " + std::to_string(there) + " of the " + std::to_string(due) + " reports until the checkpoint";
  }
  if (damaged_lines_ > 0) {
    text += (text.empty() ? "are " : ", and ") + std::to_string(damaged_lines_) + " damaged lines";
  }
  return text;
}

RAYTRAIN_INLINE auto RunHistory::read(std::filesystem::path const& progress_file) -> RunHistory {
  RunHistory history;
  auto const content = read_progress(progress_file);
  for (std::string_view rest{content}; !rest.empty();) {
    auto const line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    try {
      auto all = metrics_from_json(line);
      auto report = report_in(all);
      history.add(std::move(report), std::move(all));
    } catch (Error const&) {
      auto const is_cut_short = line.starts_with('{') && !line.ends_with('}');  // by a crash
      if (!is_cut_short) ++history.damaged_lines_;
    }
  }
  return history;
}

RAYTRAIN_INLINE auto RunHistory::report_in(Metrics const& all) -> Report {
  Report report;
  report.rank = Rank{static_cast<std::uint32_t>(number(all, "world_rank", 0x1p32))};
  report.training_iteration = static_cast<std::uint64_t>(number(all, "training_iteration", 0x1p63));
  report.time_this_iter_s = number(all, "time_this_iter_s", longest_s);
  report.time_total_s = number(all, "time_total_s", longest_s);
  report.timestamp_ns = static_cast<std::int64_t>(number(all, "timestamp", longest_s) * 1e9);
  for (auto const& [name, value] : all) {
    if (std::ranges::find(automatic_metric_names(), name) == automatic_metric_names().end()) {
      report.metrics.set(name, value);
    }
  }
  return report;
}

RAYTRAIN_INLINE auto RunHistory::number(Metrics const& metrics, std::string_view name, double limit) -> double {
  auto const value = metrics.number(name);
  if (!value || !(*value >= 0 && *value < limit)) {
    throw Error{Errc::invalid_report, "reading a stored report", "it has no '" + std::string{name} + "'"};
  }
  return *value;
}

}  // namespace raytrain
