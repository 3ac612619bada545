// SPDX-License-Identifier: Apache-2.0
// What the driver does about checkpoints.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include <raytrain/checkpoint/checkpoint_store.hpp>
#include <raytrain/checkpoint/run_directory.hpp>
#include <raytrain/core/current_error.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/exec/background_thread.hpp>
#include <raytrain/exec/channel.hpp>
#include <raytrain/launch/launcher.hpp>
#include <raytrain/message/message.hpp>
#include <raytrain/train/callback.hpp>
#include <raytrain/train/detail/run_driver.hpp>
#include <raytrain/train/detail/run_identity.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE void RunDriver::look_for_checkpoint(std::vector<CheckpointOrdinal> const& unfinished,
                                                    std::optional<CheckpointNumber> kept) {
  try {
    plan_.directory.check_in_place();
    for (auto const checkpoint : unfinished) store_.discard(checkpoint);
    lost_hosts_ = launcher_.leave_out_lost_hosts();
    resume_point_.find(kept);
    auto const& own = resume_point_.own();
    if (!own) plan_.directory.check_none_lost();
    auto const is_verified = !own || kept != own->number();
    events_.push(RunEvent{RestartDue{resume_point_.training_iteration(), launcher_.room().workers, is_verified,
                                     resume_point_.skipped()}});
  } catch (...) {
    events_.push(RunEvent{LaunchFailed{current_error().with_origin({}, host_.hostname)}});
  }
}

// Where it has failed before it could commit another one, the files in the store may be the cause: all are verified.
RAYTRAIN_INLINE auto RunDriver::kept_checkpoint() -> std::optional<CheckpointNumber> {
  auto const copies = static_cast<std::uint32_t>(plan_.fit.run.checkpoint.memory_copies);
  if (copies == 0) return std::nullopt;
  auto const last = std::min(copies, attempts_.back().world_size.value - 1);
  for (Rank rank; rank.value <= last; ++rank.value) {
    if (launcher_.keeps_process_of(rank)) return attempt_.committed;
  }
  return std::nullopt;
}

RAYTRAIN_INLINE void RunDriver::carry_out(TellWorkers const& tell) {
  auto const* const settled = std::get_if<CheckpointSettled>(&tell.message);
  if (settled != nullptr && copies_) copies_->settle(*settled);
  launcher_.tell(tell.message);
}

RAYTRAIN_INLINE void RunDriver::carry_out(CommitCheckpoint& commit) {
  auto& report = commit.rank_0_report;
  if (report.hands_over) report.metrics = history_.metrics_until(report.training_iteration);
  auto kept_reports = history_.counts_until(commit.training_iterations);
  store_thread_->post([this, commit = std::move(commit), kept_reports = std::move(kept_reports)]() mutable {
    try {
      auto const checkpoint = commit.checkpoint;
      plan_.directory.check_in_place();
      auto const number = store_.commit({.checkpoint = checkpoint,
                                         .training_iteration = commit.rank_0_report.training_iteration,
                                         .time_total_s = commit.rank_0_report.time_total_s,
                                         .world_size = launcher_.size(),
                                         .metrics = std::move(commit.rank_0_report.metrics),
                                         .parts = std::move(commit.refs),
                                         .training_iterations = std::move(commit.training_iterations),
                                         .seed = plan_.fit.run.seed,
                                         .dataset_rows = rows_of(plan_.fit.datasets),
                                         .dataset_digests = digests_of(plan_.fit.datasets),
                                         .kept_reports = std::move(kept_reports),
                                         .run_metadata = plan_.fit.run.metadata,
                                         .handed_over = commit.rank_0_report.hands_over});
      resume_point_.forget_damage(number);
      events_.send(RunEvent{CheckpointDurable{checkpoint, number}});
    } catch (...) {
      events_.send(RunEvent{CheckpointLost{commit.checkpoint, current_error().with_origin({}, host_.hostname)}});
    }
  });
}

RAYTRAIN_INLINE void RunDriver::carry_out(DeleteCheckpoint const& action) {
  store_thread_->post_later([this, number = action.number] {
    try {
      plan_.directory.check_in_place();
      store_.remove(number);
    } catch (...) {
      // Without waiting for room: at the end of a run nobody takes events before all of them are here.
      push(Warning{current_error().text()});
    }
  });
}

RAYTRAIN_INLINE void RunDriver::carry_out(DiscardCheckpoint const& action) {
  store_thread_->post([this, checkpoint = action.checkpoint] {
    try {
      plan_.directory.check_in_place();
      store_.discard(checkpoint);
    } catch (...) {
      push(Warning{current_error().text()});
    }
  });
}

RAYTRAIN_INLINE void RunDriver::record(CheckpointDurable const& durable) {
  plan_.directory.record_checkpoint();
  auto damaged = plan_.directory.damaged_checkpoints();
  if (damaged.erase(durable.number) > 0) plan_.directory.record_damaged_checkpoints(damaged);
  attempt_.committed = durable.number;
  auto const reported = attempt_.reported_checkpoints.find(durable.checkpoint);
  if (reported != attempt_.reported_checkpoints.end()) {
    attempt_.saved = reported->second;
    attempt_.reported_checkpoints.erase(attempt_.reported_checkpoints.begin(), std::next(reported));
  }
  auto const checkpoint = store_.open(durable.number);
  callbacks_.call("on_checkpoint", [&](Callback& callback) { callback.on_checkpoint(checkpoint); });
}

}  // namespace raytrain::detail
