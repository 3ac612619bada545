// SPDX-License-Identifier: Apache-2.0
#pragma once

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
#include <raytrain/core/metrics.hpp>
#include <raytrain/core/rank.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain {

/// All reports of a run over all its starts, in the order of their handling.
///
/// A start that goes on from a checkpoint repeats what came after it: a rank's report supersedes that rank's earlier
/// ones of the same or a later training iteration.
class RunHistory {
 public:
  /// `all`: the report's metrics and the automatic ones.
  void add(Report report, Metrics all);

  /// All metrics of rank 0's last report; empty if there was none.
  [[nodiscard]] auto last_metrics() const noexcept -> Metrics const& { return last_metrics_; }
  [[nodiscard]] auto take() noexcept -> std::vector<Report> { return std::move(reports_); }

  /// How many reports of each rank there are until these training iterations, of which all that came later are there.
  [[nodiscard]] auto counts_until(std::vector<std::uint64_t> const& training_iterations) const
      -> std::vector<std::uint64_t>;

  /// What of the reports until the checkpoint from which a start goes on is missing, in words; empty if nothing is.
  [[nodiscard]] auto missing_until(std::optional<Checkpoint> const& checkpoint) const -> std::string;

  /// Reads progress.jsonl; none when there is no such file. A line that cannot be read is left out.
  ///
  /// Errors: `io`.
  [[nodiscard]] static auto read(std::filesystem::path const& progress_file) -> RunHistory;

 private:
  struct OfRank {
    std::uint64_t last_iteration = 0;
    std::uint64_t reports = 0;
  };

  // The inverse of all_metrics, but for the worker's host.
  static auto report_in(Metrics const& all) -> Report;

  static constexpr double longest_s = 9e9;  // of which the nanoseconds fit into 64 bits

  static auto number(Metrics const& metrics, std::string_view name, double limit) -> double;

  std::vector<Report> reports_;
  std::map<Rank, OfRank> ranks_;
  Metrics last_metrics_;
  std::size_t damaged_lines_ = 0;
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/train/run_history-inl.hpp>
#endif
