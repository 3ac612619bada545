// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <raytrain/core/identifiers.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain {

/// A worker that the others wait for again and again.
struct Straggler {
  Rank rank{};
  double own_s{};     ///< What its last iteration took, without its waits for other workers.
  double others_s{};  ///< The median of the others.

  [[nodiscard]] auto text(std::string const& hostname) const -> std::string;
};

/// Finds stragglers among the workers of an attempt: in three reports in a row the same worker's own time is the
/// longest, at least 1.5 times the median of the others' and 50 ms longer, and most of the others wait for at least
/// half of the difference. Own time is what an iteration takes without the waits in collectives, which last as long as
/// the slowest worker's own time whoever waits.
class StragglerWatch {
 public:
  explicit StragglerWatch(WorldSize world) : world_{world} {}

  /// The straggler that this report shows, once for each worker.
  [[nodiscard]] auto note(Report const& report) -> std::optional<Straggler>;

 private:
  static constexpr double smallest_factor = 1.5;
  static constexpr double shortest_difference_s = 0.05;
  static constexpr double shortest_own_s = 0.001;  // to divide by
  static constexpr int fewest_in_a_row = 3;
  static constexpr std::size_t most_iterations = 8;  // that some workers have not reported

  struct Iteration {
    std::vector<double> own_s;  // by rank
    std::vector<double> waiting_s;
    std::uint32_t reports = 0;
  };

  [[nodiscard]] static auto slowest_of(Iteration iteration) -> std::optional<Straggler>;

  WorldSize world_;
  std::map<std::uint64_t, Iteration> iterations_;
  std::optional<Rank> slowest_;
  int in_a_row_ = 0;
  std::vector<Rank> told_;
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/train/straggler_watch-inl.hpp>
#endif
