// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/metrics.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain {

struct Result;

/// Calls `on_report` for every report in a progress.jsonl, in the order of their handling, with all its metrics; never
/// when there is no such file. Returns how many lines could not be read, but for those that a crash cut short or a
/// power loss left as zeros.
///
/// Errors: `io`.
auto for_each_report(std::filesystem::path const& progress_file,
                     std::function<void(Report report, Metrics all)> const& on_report) -> std::size_t;

/// The reports of a run over all its starts, as far as they are kept in memory: rank 0's, and the last one of every
/// other rank. All of them are in progress.jsonl.
///
/// A start that goes on from a checkpoint repeats what came after it: a rank's report supersedes that rank's earlier
/// ones of the same or a later training iteration.
class RunHistory {
 public:
  /// Rank 0's that are kept in memory; of more the oldest are dropped.
  static constexpr std::size_t max_reports = 100'000;

  /// `all`: the report's metrics and the automatic ones.
  void add(Report report, Metrics all);

  /// The user's own metrics of rank 0's last report up to this training iteration; empty without any.
  [[nodiscard]] auto metrics_until(std::uint64_t training_iteration) const -> Metrics;

  /// Gives a result its metrics and reports; those of ranks from `Result::world_size` on are left out.
  void move_to(Result& result);

  /// How many reports of each rank there are up to that rank's training iteration.
  [[nodiscard]] auto counts_until(std::vector<std::uint64_t> const& training_iterations) const
      -> std::vector<std::uint64_t>;

  /// Which of the reports before this checkpoint, from which a start goes on, are missing, in words; empty if none is.
  [[nodiscard]] auto missing_until(std::optional<Checkpoint> const& checkpoint) const -> std::string;

  /// Errors: as `for_each_report`.
  [[nodiscard]] static auto read(std::filesystem::path const& progress_file) -> RunHistory;

 private:
  /// A set of training iterations, to which ever higher ones are added.
  class Iterations {
   public:
    /// The same and all later ones are removed first.
    void add(std::uint64_t iteration);
    [[nodiscard]] auto count_until(std::uint64_t iteration) const -> std::uint64_t;

   private:
    struct Range {
      std::uint64_t first;
      std::uint64_t last;
    };
    std::vector<Range> ranges_;  ///< In ascending order: one, unless reports are missing.
  };

  struct OfRank {
    Iterations iterations;
    Report last;
  };

  std::deque<Report> reports_;  // rank 0's
  std::map<Rank, OfRank> ranks_;
  Metrics last_metrics_;
  std::size_t damaged_lines_ = 0;
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/train/run_history-inl.hpp>
#endif
