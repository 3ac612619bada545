// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include <raytrain/core/clock.hpp>
#include <raytrain/core/identifiers.hpp>

namespace raytrain::detail {

/// When each worker of an attempt was heard of last. One that is said to be silent is forgotten until it is heard
/// again.
class SignsOfLife {
 public:
  void clear() { heard_.clear(); }

  void note(Rank rank, Clock::TimePoint now) { heard_[rank] = now; }

  /// When the next one will have been silent for so long; `otherwise` when nobody was heard.
  [[nodiscard]] auto next_due(Clock::Duration limit, Clock::TimePoint otherwise) const -> Clock::TimePoint {
    for (auto const& [rank, heard] : heard_) otherwise = std::min(otherwise, heard + limit);
    return otherwise;
  }

  /// Those that were not heard since, the one that is silent for the longest time first.
  [[nodiscard]] auto take_silent_since(Clock::TimePoint latest) -> std::vector<Rank> {
    std::vector<std::pair<Clock::TimePoint, Rank>> silent;
    for (auto const& [rank, heard] : heard_) {
      if (heard <= latest) silent.emplace_back(heard, rank);
    }
    std::ranges::sort(silent);
    std::vector<Rank> ranks;
    for (auto const& [heard, rank] : silent) {
      heard_.erase(rank);
      ranks.push_back(rank);
    }
    return ranks;
  }

 private:
  std::map<Rank, Clock::TimePoint> heard_;
};

}  // namespace raytrain::detail
