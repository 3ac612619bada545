// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include <raytrain/core/identifiers.hpp>

namespace raytrain::detail {

/// Where a rank of a job stands among those that are left; `lost`: in ascending order.
[[nodiscard]] auto rank_without(std::vector<Rank> const& lost, Rank rank_of_job) -> Rank;

/// Which ranks of a job are lost, and as which workers the others go on.
class Survivors {
 public:
  explicit Survivors(WorldSize job = {}) : job_{job} {}

  void lose_rank(Rank rank_of_job);

  /// In ascending order.
  [[nodiscard]] auto lost() const noexcept -> std::vector<Rank> const& { return lost_; }
  [[nodiscard]] auto left() const noexcept -> WorldSize {
    return {job_.value - static_cast<std::uint32_t>(lost_.size())};
  }

  /// From this attempt on those that are left are all that there are.
  void begin(Attempt attempt);

  /// Of the present attempt, those that were lost in it too.
  [[nodiscard]] auto workers() const noexcept -> WorldSize;

  /// Whether the rank that has spoken as that worker is left.
  [[nodiscard]] auto has(Rank worker, Attempt attempt) const -> bool;

  /// As which worker a rank has spoken in that attempt.
  [[nodiscard]] auto worker_of(Rank rank_of_job, Attempt attempt) const -> Rank;

 private:
  struct World {
    Attempt first;
    std::vector<Rank> lost;
  };

  WorldSize job_;
  std::vector<Rank> lost_;
  std::vector<World> worlds_;  ///< In the order of their attempts; whole before the first.
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/launch/detail/survivors-inl.hpp>
#endif
