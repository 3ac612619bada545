// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <raytrain/config/checkpoint_config.hpp>
#include <raytrain/config/checkpoint_interval.hpp>
#include <raytrain/core/clock.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/train/checkpoint_schedule.hpp>

namespace raytrain {

RAYTRAIN_INLINE auto CheckpointSchedule::next(Clock::TimePoint now, bool is_busy) -> Fate {
  ++reports_;
  if (!is_due(now, is_busy)) return Fate::hold;
  if (!is_busy || when_busy_ == WhenBusy::wait) return Fate::write;
  return when_busy_ == WhenBusy::skip ? Fate::skip : Fate::hold;
}

RAYTRAIN_INLINE void CheckpointSchedule::note_written(Clock::TimePoint reported) {
  reports_ = 0;
  written_ = reported;
}

RAYTRAIN_INLINE auto CheckpointSchedule::is_due(Clock::TimePoint now, bool is_busy) const -> bool {
  if (!every_) return true;
  auto const since = CheckpointInterval::Seconds{now - written_};
  switch (every_->kind()) {
    case CheckpointInterval::Kind::reports: return reports_ >= every_->count();
    case CheckpointInterval::Kind::time: return since >= every_->time();
    case CheckpointInterval::Kind::automatic: break;
  }
  // What the first one costs is to be known first.
  return cost_ ? since >=
                     cheapest_interval({.cost = *cost_, .between_failures = between_failures_.value_or(every_->time())})
               : !is_busy;
}

}  // namespace raytrain
