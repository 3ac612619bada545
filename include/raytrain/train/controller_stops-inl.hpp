// SPDX-License-Identifier: Apache-2.0
// What ends an attempt, or the run, before the workers have returned by themselves, and is no failure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/message/message.hpp>
#include <raytrain/train/controller.hpp>
#include <raytrain/train/controller_events.hpp>

namespace raytrain {

RAYTRAIN_INLINE void Controller::on(StopRequest const& request) {
  if (stop_requested_ && request.times > 1) {
    tell_to_abort();
    act(ArmGrace{ArmGrace::Grace::at_once});
  }
  if (std::exchange(signalled_, true)) return;
  act(RecordMessage{Warning{"a stop was requested: workers end at their next report; ask again to end at once"}});
  ask_to_stop();
  arm_grace();
}

RAYTRAIN_INLINE void Controller::on(CallbackStop const& stop) {
  if (stop.finished && !std::exchange(finished_early_, true)) {
    act(RecordMessage{Warning{"a callback says that the run is finished: workers end at their next report"}});
  } else if (!stop_requested_) {
    act(RecordMessage{Warning{"a callback asked for a stop: workers end at their next report"}});
  }
  if (!stop_requested_) ask_to_stop();
  if (!stop.finished) arm_grace();
}

RAYTRAIN_INLINE void Controller::on(Preempted const& preempted) {
  auto const rank = preempted.rank;
  if (!policy_.replaces_processes) return;
  if (preempted.attempt != attempt_) return tell_of_late_notice(preempted);
  if (rank.value >= workers_.size()) return;
  auto const& worker = workers_[rank.value];
  if ((worker.ended && !resizing_) || aborting_ || is_preempted(rank)) return;
  ErrorInfo error{Errc::worker_failed, {}, "its process was sent a SIGTERM"};
  preemptions_.push_back(std::move(error).with_origin(rank, worker.hostname));
  if (stop_requested_ || preemptions_.size() > 1) return;  // a stop may have been meant
  act(RecordMessage{
      Warning{rank, "rank " + std::to_string(rank.value) +
                        ": its process was sent a SIGTERM, so it may be taken away soon: workers end at their "
                        "next report"}});
  resize_if_due();
}

RAYTRAIN_INLINE void Controller::tell_of_late_notice(Preempted const& preempted) {
  if (stop_requested_ || preempted.attempt.value + 1 != attempt_.value) return;
  act(RecordMessage{Warning{preempted.rank, "rank " + std::to_string(preempted.rank.value) +
                                                ": its process was sent a SIGTERM when its worker had returned; "
                                                "another process takes its place"}});
}

RAYTRAIN_INLINE auto Controller::is_preempted(Rank rank) const -> bool {
  return std::ranges::any_of(preemptions_, [rank](auto const& preemption) { return preemption.rank == rank; });
}

RAYTRAIN_INLINE auto Controller::max_preemptions_is_used_up() const -> bool {
  auto const most = policy_.failure.max_preemptions;
  return !preemptions_.empty() && most >= 0 && preempted_ >= static_cast<std::uint32_t>(most);
}

RAYTRAIN_INLINE auto Controller::fail_by_preemptions() -> bool {
  if (!std::exchange(waits_for_stop_, true)) act(ArmGrace{ArmGrace::Grace::of_stop});
  if (!no_stop_came_) return false;
  for (auto const& preemption : preemptions_) {
    auto failure = preemption;
    failure.happened += ", and FailureConfig::max_preemptions is " + std::to_string(policy_.failure.max_preemptions);
    failure.remedy = "see who takes processes away, or raise max_preemptions";
    record_failure(std::move(failure));
  }
  return true;
}

RAYTRAIN_INLINE void Controller::on(ResizeAsked const& asked) {
  if (size_.is_elastic()) {
    size_.want(asked.is_change ? std::int64_t{size_.next().value} + asked.workers : asked.workers);
    return resize_if_due();
  }
  auto const always = std::to_string(workers_.size());
  act(RecordMessage{Warning{"another number of workers is asked for, and this run has always " + always}});
}

RAYTRAIN_INLINE void Controller::resize_if_due(bool moves) {
  if (state_ != RunState::running) return;
  // With too few hosts those that train go on as they do.
  auto const is_due = !size_.is_short_of_room() && (moves || size_.next().value != workers_.size());
  if (!is_due && preemptions_.empty()) return;
  state_ = RunState::resizing;
  resizing_ = true;
  Stop stop{false};
  stop.goes_on = true;
  tell(stop);
  arm_grace();
}

RAYTRAIN_INLINE void Controller::on(GraceOver const& over) {
  if (state_ == RunState::restarting || grace_is_void_) return;  // of the attempt that has ended, or of a resize
  if (waits_for_stop_) {
    no_stop_came_ = true;
    return;
  }
  auto const first_time = !aborting_;
  abort_workers();
  if (first_time) return;
  if (over.ends_processes) return leave_workers_behind();
  act(RecordMessage{
      Warning{"still waiting for " + unfinished() + " to return; a thread cannot be ended from outside"}});
}

RAYTRAIN_INLINE void Controller::leave_workers_behind() {
  cut_short_ = true;
  for (auto& worker : workers_) {
    if (worker.ended) continue;
    auto const rank = rank_of(worker);
    note_ended(rank);
    ranks_left_behind_.push_back(rank);
    std::string const what =
        "did not return although it was told to, and its process is ended: it computes or waits "
        "outside of raytrain";
    if (failures_.empty()) {
      act(RecordMessage{Warning{"rank " + std::to_string(rank.value) + ' ' + what}});
    } else {
      ErrorInfo error{
          Errc::timed_out, {}, what, "look at stop_requested() in long work, or raise RunConfig::stop_grace"};
      record_failure(std::move(error).with_origin(rank, worker.hostname));
    }
  }
}

RAYTRAIN_INLINE void Controller::ask_to_stop() {
  if (!std::exchange(stop_requested_, true)) void_grace();  // of a resize that was under way
  if (state_ == RunState::scheduling || state_ == RunState::running || state_ == RunState::resizing) {
    state_ = RunState::stopping;
  }
  Stop stop{false};
  stop.by_signal = signalled_;
  tell(stop);
}

RAYTRAIN_INLINE void Controller::arm_grace() {
  if (std::exchange(grace_armed_, true)) return;
  grace_is_void_ = false;
  act(ArmGrace{});
}

}  // namespace raytrain
