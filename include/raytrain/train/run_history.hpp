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
#include <raytrain/core/metrics.hpp>
#include <raytrain/core/rank.hpp>
#include <raytrain/message/json.hpp>
#include <raytrain/message/message.hpp>
#include <raytrain/message/report_line.hpp>

namespace raytrain {

/// All reports of a run over all its starts, in the order of their handling.
///
/// A start that goes on from a checkpoint repeats what came after it: a rank's report supersedes that rank's earlier
/// ones of the same or a later training iteration.
class RunHistory {
 public:
  /// `all`: the report's metrics and the automatic ones.
  void add(Report report, Metrics all) {
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

  /// All metrics of rank 0's last report; empty if there was none.
  [[nodiscard]] auto last_metrics() const noexcept -> Metrics const& { return last_metrics_; }
  [[nodiscard]] auto take() noexcept -> std::vector<Report> { return std::move(reports_); }

  /// How many reports of each rank there are until these training iterations, of which all that came later are there.
  [[nodiscard]] auto counts_until(std::vector<std::uint64_t> const& training_iterations) const
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

  /// What of the reports until the checkpoint from which a start goes on is missing, in words; empty if nothing is.
  [[nodiscard]] auto missing_until(std::optional<Checkpoint> const& checkpoint) const -> std::string {
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

  /// Reads progress.jsonl; none when there is no such file. A line that cannot be read is left out.
  ///
  /// Errors: `io`.
  [[nodiscard]] static auto read(std::filesystem::path const& progress_file) -> RunHistory {
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

 private:
  struct OfRank {
    std::uint64_t last_iteration = 0;
    std::uint64_t reports = 0;
  };

  // The inverse of all_metrics, but for the worker's host.
  static auto report_in(Metrics const& all) -> Report {
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

  static constexpr double longest_s = 9e9;  // of which the nanoseconds fit into 64 bits

  static auto number(Metrics const& metrics, std::string_view name, double limit) -> double {
    auto const value = metrics.number(name);
    if (!value || !(*value >= 0 && *value < limit)) {
      throw Error{Errc::invalid_report, "reading a stored report", "it has no '" + std::string{name} + "'"};
    }
    return *value;
  }

  std::vector<Report> reports_;
  std::map<Rank, OfRank> ranks_;
  Metrics last_metrics_;
  std::size_t damaged_lines_ = 0;
};

}  // namespace raytrain
