// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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
    auto& last = last_iteration_[report.rank];
    if (report.training_iteration <= last) {
      std::erase_if(reports_, [&](Report const& earlier) {
        return earlier.rank == report.rank && earlier.training_iteration >= report.training_iteration;
      });
    }
    last = report.training_iteration;
    reports_.push_back(std::move(report));
  }

  /// All metrics of rank 0's last report; empty if there was none.
  [[nodiscard]] auto last_metrics() const noexcept -> Metrics const& { return last_metrics_; }
  [[nodiscard]] auto take() noexcept -> std::vector<Report> { return std::move(reports_); }

  /// What of the reports before a start is missing, in words; empty if nothing is. `training_iteration`: that of the
  /// checkpoint from which it goes on.
  [[nodiscard]] auto missing_until(std::uint64_t training_iteration) const -> std::string {
    auto const kept = static_cast<std::uint64_t>(std::ranges::count_if(reports_, [&](Report const& report) {
      return report.rank == Rank{0} && report.training_iteration <= training_iteration;
    }));
    std::string text;
    if (kept < training_iteration) {
      text = "are " + std::to_string(kept) + " of the " + std::to_string(training_iteration) +
             " reports of rank 0 until the checkpoint";
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
  std::map<Rank, std::uint64_t> last_iteration_;
  Metrics last_metrics_;
  std::size_t damaged_lines_ = 0;
};

}  // namespace raytrain
