// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include <raytrain/config/checkpoint_config.hpp>
#include <raytrain/config/checkpoint_interval.hpp>
#include <raytrain/core/clock.hpp>

namespace raytrain {

/// Decides which of the reports with a checkpoint are written, as `CheckpointConfig::every` and `when_busy` say. Rank 0
/// decides for all.
class CheckpointSchedule {
 public:
  /// What becomes of a state. Of several ranks' wishes the last one in this order counts.
  enum class Fate : std::uint8_t {
    skip,   ///< It is not even copied.
    hold,   ///< It is copied, in place of the one that was copied before.
    write,  ///< It is written.
  };

  /// `between_failures`: those that were seen, in place of those that `CheckpointInterval::automatic` was given.
  CheckpointSchedule(CheckpointConfig const& config, std::optional<CheckpointInterval::Seconds> between_failures,
                     Clock::TimePoint start)
      : every_{config.every}, when_busy_{config.when_busy}, between_failures_{between_failures}, written_{start} {}

  /// Of the state of a report at that time; `is_busy`: the one that was written last is not committed yet.
  [[nodiscard]] auto next(Clock::TimePoint now, bool is_busy) -> Fate;

  /// The state of the last report is written, whoever wished so.
  void note_written(Clock::TimePoint reported);

  /// What the one that was written last has cost.
  void note_cost(CheckpointInterval::Seconds cost) { cost_ = cost; }

 private:
  [[nodiscard]] auto is_due(Clock::TimePoint now, bool is_busy) const -> bool;

  std::optional<CheckpointInterval> every_;
  WhenBusy when_busy_;
  std::optional<CheckpointInterval::Seconds> between_failures_;
  std::optional<CheckpointInterval::Seconds> cost_;
  Clock::TimePoint written_;  // reported then, the one that was written last
  std::int64_t reports_ = 0;  // since then
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/train/checkpoint_schedule-inl.hpp>
#endif
