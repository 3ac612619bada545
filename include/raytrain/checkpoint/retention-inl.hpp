// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <vector>

#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/checkpoint/retention.hpp>
#include <raytrain/config/checkpoint_config.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain {

RAYTRAIN_INLINE auto scored(std::vector<Checkpoint> const& checkpoints, CheckpointConfig const& config)
    -> std::vector<ScoredCheckpoint> {
  std::vector<ScoredCheckpoint> all;
  for (auto const& checkpoint : checkpoints) {
    auto score = checkpoint.metrics().number(config.score_attribute);
    if (checkpoint.is_handed_over()) score.reset();
    all.push_back({checkpoint.number(), score});
  }
  return all;
}

RAYTRAIN_INLINE auto checkpoints_to_delete(std::vector<ScoredCheckpoint> checkpoints, CheckpointConfig const& config)
    -> std::vector<CheckpointNumber> {
  std::vector<CheckpointNumber> numbers;
  if (!config.num_to_keep) return numbers;
  auto const rank_of = [&](ScoredCheckpoint const& checkpoint) -> std::optional<double> {
    if (config.score_attribute.empty() || !checkpoint.score || !std::isfinite(*checkpoint.score)) return std::nullopt;
    return config.score_order == ScoreOrder::max ? *checkpoint.score : -*checkpoint.score;
  };
  // An optional without a value is less than any with one.
  std::ranges::sort(checkpoints, [&](ScoredCheckpoint const& a, ScoredCheckpoint const& b) {
    auto const rank_of_a = rank_of(a);
    auto const rank_of_b = rank_of(b);
    return rank_of_a == rank_of_b ? a.number > b.number : rank_of_a > rank_of_b;
  });
  auto const newest = std::ranges::max_element(checkpoints, {}, &ScoredCheckpoint::number);
  for (auto index = static_cast<std::size_t>(*config.num_to_keep); index < checkpoints.size(); ++index) {
    if (checkpoints[index].number != newest->number) numbers.push_back(checkpoints[index].number);
  }
  std::ranges::sort(numbers);
  return numbers;
}

}  // namespace raytrain
