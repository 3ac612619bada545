// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/checkpoint/run_record.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/metrics.hpp>
#include <raytrain/message/json.hpp>
#include <raytrain/message/message.hpp>
#include <raytrain/message/report_line.hpp>
#include <raytrain/train/result.hpp>
#include <raytrain/train/run_history.hpp>

namespace raytrain::detail {

/// A number of a stored report, which must be from 0 to below `limit`.
RAYTRAIN_INLINE auto stored_number(Metrics const& metrics, std::string_view name, double limit) -> double {
  auto const value = metrics.number(name);
  if (!value || !(*value >= 0 && *value < limit)) {
    throw Error{Errc::invalid_report, "reading a stored report", "it has no '" + std::string{name} + "'"};
  }
  return *value;
}

/// The inverse of `all_metrics`, but for the worker's host.
RAYTRAIN_INLINE auto report_in(Metrics const& all) -> Report {
  constexpr double longest_s = 9e9;  // of which the nanoseconds fit into 64 bits
  Report report;
  report.rank = Rank{static_cast<std::uint32_t>(stored_number(all, "world_rank", 0x1p32))};
  report.training_iteration = static_cast<std::uint64_t>(stored_number(all, "training_iteration", 0x1p63));
  report.time_this_iter_s = stored_number(all, "time_this_iter_s", longest_s);
  report.time_total_s = stored_number(all, "time_total_s", longest_s);
  report.timestamp_ns = static_cast<std::int64_t>(stored_number(all, "timestamp", longest_s) * 1e9);
  for (auto const& [name, value] : all) {
    if (std::ranges::find(automatic_metric_names(), name) == automatic_metric_names().end()) {
      report.metrics.set(name, value);
    }
  }
  return report;
}

}  // namespace raytrain::detail

namespace raytrain {

RAYTRAIN_INLINE auto for_each_report(std::filesystem::path const& progress_file,
                                     std::function<void(Report report, Metrics all)> const& on_report) -> std::size_t {
  std::size_t damaged_lines = 0;
  for_each_progress_line(progress_file, [&](std::string_view line) {
    try {
      auto all = metrics_from_json(line);
      auto const is_of_restart =
          all.number("failed_attempt") || all.number("preempted_attempt") || all.number("resized_attempt");
      if (is_of_restart && !all.number("time_total_s")) return;  // for people
      auto report = detail::report_in(all);
      on_report(std::move(report), std::move(all));
    } catch (Error const&) {
      auto const is_cut_short = line.starts_with('{') && !line.ends_with('}');                       // by a crash
      auto const is_lost = !line.empty() && line.find_first_not_of('\0') == std::string_view::npos;  // by a power loss
      if (!is_cut_short && !is_lost) ++damaged_lines;
    }
  });
  return damaged_lines;
}

RAYTRAIN_INLINE void RunHistory::add(Report report, Metrics all) {
  auto& of_rank = ranks_[report.rank];
  of_rank.iterations.add(report.training_iteration);
  if (report.rank != Rank{0}) {
    of_rank.last = std::move(report);
    return;
  }
  last_metrics_ = std::move(all);
  while (!reports_.empty() && reports_.back().training_iteration >= report.training_iteration) reports_.pop_back();
  reports_.push_back(std::move(report));
  if (reports_.size() > max_reports) reports_.pop_front();
}

RAYTRAIN_INLINE auto RunHistory::metrics_until(std::uint64_t training_iteration) const -> Metrics {
  for (auto report = reports_.rbegin(); report != reports_.rend(); ++report) {
    if (report->training_iteration <= training_iteration) return report->metrics;
  }
  return {};
}

RAYTRAIN_INLINE void RunHistory::move_to(Result& result) {
  result.metrics = std::move(last_metrics_);
  result.history.assign(std::move_iterator{reports_.begin()}, std::move_iterator{reports_.end()});
  result.last_reports.clear();
  for (auto& [rank, of_rank] : ranks_) {
    if (rank.value >= result.world_size.value) break;
    result.last_reports.push_back(rank == Rank{0} ? result.history.back() : std::move(of_rank.last));
  }
  *this = {};
}

RAYTRAIN_INLINE auto RunHistory::counts_until(std::vector<std::uint64_t> const& training_iterations) const
    -> std::vector<std::uint64_t> {
  std::vector<std::uint64_t> counts;
  for (std::uint32_t rank = 0; rank < training_iterations.size(); ++rank) {
    auto const known = ranks_.find(Rank{rank});
    counts.push_back(known == ranks_.end() ? 0 : known->second.iterations.count_until(training_iterations[rank]));
  }
  return counts;
}

RAYTRAIN_INLINE auto RunHistory::missing_until(std::optional<Checkpoint> const& checkpoint) const -> std::string {
  std::uint64_t there = 0;
  std::uint64_t due = 0;
  // Of one by a version that did not record it rank 0's are known.
  std::vector<std::uint64_t> wanted(checkpoint ? 1 : 0, checkpoint ? checkpoint->training_iteration() : 0);
  if (checkpoint) wanted = checkpoint->kept_reports().value_or(wanted);
  std::vector<std::uint64_t> until;
  for (std::uint32_t rank = 0; rank < wanted.size(); ++rank) until.push_back(checkpoint->training_iteration({rank}));
  auto const kept = counts_until(until);
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
  history.damaged_lines_ = for_each_report(
      progress_file, [&](Report report, Metrics all) { history.add(std::move(report), std::move(all)); });
  return history;
}

RAYTRAIN_INLINE void RunHistory::Iterations::add(std::uint64_t iteration) {
  while (!ranges_.empty() && ranges_.back().first >= iteration) ranges_.pop_back();
  if (ranges_.empty() || ranges_.back().last + 1 < iteration) {
    ranges_.push_back({iteration, iteration});
  } else {
    ranges_.back().last = iteration;
  }
}

RAYTRAIN_INLINE auto RunHistory::Iterations::count_until(std::uint64_t iteration) const -> std::uint64_t {
  std::uint64_t count = 0;
  for (auto const& [first, last] : ranges_) {
    if (first <= iteration) count += std::min(last, iteration) - first + 1;
  }
  return count;
}

}  // namespace raytrain
