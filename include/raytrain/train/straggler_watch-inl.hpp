// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
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
  iteration.own_s.at(report.rank.value) = std::max(shortest_own_s, report.time_this_iter_s - report.time_waiting_s);
  if (++iteration.reports < world_.value) {
    if (iterations_.size() > most_iterations) iterations_.erase(iterations_.begin());
    return std::nullopt;
  }
  auto const slowest = slowest_of(std::move(iteration.own_s));
  iterations_.erase(iterations_.begin(), std::next(iterations_.find(report.training_iteration)));
  auto const is_late =
      slowest.own_s > smallest_factor * slowest.others_s && slowest.own_s - slowest.others_s > shortest_difference_s;
  in_a_row_ = !is_late ? 0 : slowest_ == slowest.rank ? in_a_row_ + 1 : 1;
  slowest_ = slowest.rank;
  if (in_a_row_ < fewest_in_a_row || std::ranges::find(told_, slowest.rank) != told_.end()) return std::nullopt;
  told_.push_back(slowest.rank);
  return slowest;
}

RAYTRAIN_INLINE auto StragglerWatch::slowest_of(std::vector<double> own_s) -> Straggler {
  auto const slowest = std::ranges::max_element(own_s);
  Straggler straggler{.rank = Rank{static_cast<std::uint32_t>(slowest - own_s.begin())}, .own_s = *slowest};
  own_s.erase(slowest);
  auto const median = own_s.begin() + static_cast<std::ptrdiff_t>(own_s.size() / 2);
  std::ranges::nth_element(own_s, median);
  straggler.others_s = *median;
  return straggler;
}

}  // namespace raytrain
