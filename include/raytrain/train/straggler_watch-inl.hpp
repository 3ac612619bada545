// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/message/message.hpp>
#include <raytrain/train/straggler_watch.hpp>

namespace raytrain::detail {

/// `left_out` is the index of the value that does not count; there is another one.
RAYTRAIN_INLINE auto median_without(std::vector<double> values, std::size_t left_out) -> double {
  values.erase(values.begin() + static_cast<std::ptrdiff_t>(left_out));
  auto const median = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, median);
  return *median;
}

}  // namespace raytrain::detail

namespace raytrain {

RAYTRAIN_INLINE auto Straggler::text(std::string const& hostname) const -> std::string {
  return fmt::format(
      "rank {} on host {} takes {:.1f} times as long as the others for its own part of an iteration ({:.2f} s, their "
      "median {:.2f} s), in three reports in a row: they wait for it",
      rank.value, hostname, own_s / others_s, own_s, others_s);
}

RAYTRAIN_INLINE auto StragglerWatch::note(Report const& report) -> std::optional<Straggler> {
  if (world_.value < 2) return std::nullopt;
  auto& iteration = iterations_[report.training_iteration];
  iteration.own_s.resize(world_.value);
  iteration.waiting_s.resize(world_.value);
  iteration.waiting_s.at(report.rank.value) = report.time_waiting_s;
  iteration.own_s.at(report.rank.value) = std::max(shortest_own_s, report.time_this_iter_s - report.time_waiting_s);
  if (++iteration.reports < world_.value) {
    if (iterations_.size() > most_iterations) iterations_.erase(iterations_.begin());
    return std::nullopt;
  }
  auto const slowest = slowest_of(std::move(iteration));
  iterations_.erase(iterations_.begin(), std::next(iterations_.find(report.training_iteration)));
  in_a_row_ = !slowest ? 0 : slowest_ == slowest->rank ? in_a_row_ + 1 : 1;
  if (!slowest) return std::nullopt;
  slowest_ = slowest->rank;
  if (in_a_row_ < fewest_in_a_row || std::ranges::find(told_, slowest->rank) != told_.end()) return std::nullopt;
  told_.push_back(slowest->rank);
  return slowest;
}

RAYTRAIN_INLINE auto StragglerWatch::slowest_of(Iteration iteration) -> std::optional<Straggler> {
  auto const slowest = static_cast<std::size_t>(std::ranges::max_element(iteration.own_s) - iteration.own_s.begin());
  Straggler const straggler{.rank = Rank{static_cast<std::uint32_t>(slowest)},
                            .own_s = iteration.own_s[slowest],
                            .others_s = detail::median_without(std::move(iteration.own_s), slowest)};
  auto const difference = straggler.own_s - straggler.others_s;
  auto const is_waited_for = detail::median_without(std::move(iteration.waiting_s), slowest) >= difference / 2;
  if (!is_waited_for || straggler.own_s <= smallest_factor * straggler.others_s || difference <= shortest_difference_s)
    return std::nullopt;
  return straggler;
}

}  // namespace raytrain
