// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <raytrain/config/checkpoint_config.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/metrics.hpp>
#include <raytrain/message/message.hpp>
#include <raytrain/train/controller.hpp>
#include <raytrain/train/controller_events.hpp>

namespace raytrain {

RAYTRAIN_INLINE auto Controller::handle(RunEvent event) -> std::vector<RunAction>& {
  actions_.clear();
  if (!is_terminal(state_)) {
    std::visit([this](auto& what) { on(what); }, event);
    finish_when_done();
  }
  return actions_;
}

RAYTRAIN_INLINE void Controller::on(RunBegins const& begins) {
  if (stop_requested_) {
    state_ = RunState::stopping;
    return;
  }
  // What a start left that was killed before its deletions, or that kept more of them.
  delete_surplus();
  launch(begins.training_iteration);
}

RAYTRAIN_INLINE void Controller::on(RestartDue const& due) {
  if (state_ != RunState::restarting) return;
  if (due.room) size_.set_room(*due.room);
  may_find_damage_ = !due.is_verified;
  std::erase_if(kept_, [&](ScoredCheckpoint const& kept) { return due.damaged.contains(kept.number); });
  launch(due.training_iteration);
}

RAYTRAIN_INLINE void Controller::on(LaunchFailed& failed) {
  for (auto const& worker : workers_) note_ended(rank_of(worker));
  fail_attempt(std::move(failed.error));
}

RAYTRAIN_INLINE void Controller::launch(std::uint64_t training_iteration) {
  auto const world = size_.next();
  launched_ = true;
  resizing_ = false;
  grace_armed_ = false;
  grace_is_void_ = false;
  first_stopped_.reset();
  preemptions_.clear();
  waits_for_stop_ = no_stop_came_ = false;
  aborting_ = false;
  cut_short_ = false;
  state_ = RunState::scheduling;
  Worker const worker{.hostname = {}, .checkpoints = first_checkpoint_.value, .training_iteration = training_iteration};
  workers_.assign(world.value, worker);
  stragglers_ = StragglerWatch{world};
  totals_ = {.most_checkpoints = first_checkpoint_.value};
  act(LaunchWorkers{attempt_, world, first_checkpoint_});
}

RAYTRAIN_INLINE void Controller::on(WorkerMessage& message) {
  auto const* const failed = std::get_if<Failed>(&message);
  auto const of_no_attempt = std::holds_alternative<StopRequest>(message) || std::holds_alternative<Warning>(message) ||
                             std::holds_alternative<PrintedLine>(message) ||
                             std::holds_alternative<Preempted>(message) || (failed != nullptr && !failed->error.rank);
  if (!of_no_attempt && attempt_of(message) != attempt_) return;
  std::visit([this](auto& what) { on(what); }, message);
}

RAYTRAIN_INLINE void Controller::on(StartIsDue const& due) {
  if (due.attempt != attempt_ || aborting_ || state_ == RunState::restarting) return;
  for (auto const& worker : workers_) {
    if (worker.started || worker.ended) continue;
    ErrorInfo error{Errc::timed_out,
                    {},
                    "it has not begun to train within " + std::to_string(due.limit.count()) + " ms",
                    "see what keeps its process before fit(); raise ScalingConfig::start_timeout where that is right"};
    fail_attempt(std::move(error).with_origin(rank_of(worker), worker.hostname));
  }
}

RAYTRAIN_INLINE void Controller::on(Silent& silent) {
  auto& worker = workers_.at(silent.rank.value);
  // Where another one has failed first, those that wait for others return by themselves.
  auto const follows = aborting_ && !failures_.empty() && policy_.replaces_processes && !silent.waits;
  if (worker.ended || (state_ != RunState::running && !follows)) return;
  if (aborting_ && !follows) return;
  set_waits_in_vain(worker, silent.waits);
  if (silent.silent_ms == 0) return;
  auto const another_may_go_on = totals_.ended + totals_.waiting_in_vain < workers_.size();
  if (silent.waits && another_may_go_on) return;
  // What differs each time is no part of what happened, by which failures are compared.
  ErrorInfo error{
      Errc::timed_out,
      {},
      "it has shown no sign of life for " + std::to_string(policy_.failure.hang_timeout.count()) + " ms" +
          (silent.waits ? ", as all others: they wait for each other in collectives" : ""),
      silent.doing +
          "; raise FailureConfig::hang_timeout, or call heartbeat() in long work, or announce it by expect()"};
  fail_attempt(std::move(error).with_origin(silent.rank, worker.hostname));  // which tells workers once to abort
  if (silent.waits || !policy_.replaces_processes) return;
  // It would not return either when it is told to: the others need not wait for it.
  note_ended(silent.rank);
  ranks_left_behind_.push_back(silent.rank);
}

RAYTRAIN_INLINE void Controller::warn_of_straggler(Report const& report) {
  auto const straggler = stragglers_.note(report);
  if (!straggler) return;
  act(RecordMessage{Warning{straggler->rank, straggler->text(workers_.at(straggler->rank.value).hostname)}});
}

RAYTRAIN_INLINE void Controller::on(Started& started) {
  auto& worker = workers_.at(started.rank.value);
  if (!std::exchange(worker.started, true)) ++totals_.started;
  worker.hostname = started.hostname;
  if (state_ == RunState::scheduling && totals_.started == workers_.size()) state_ = RunState::running;
  act(RecordMessage{std::move(started)});
  resize_if_due();
}

RAYTRAIN_INLINE void Controller::on(Report& report) {
  auto const rank = report.rank;
  auto& worker = workers_.at(rank.value);
  worker.training_iteration = report.training_iteration;
  set_waits_in_vain(worker, false);
  if (!report.hands_over) warn_of_straggler(report);
  if (report.replaces) {
    auto const replaced = arriving_.find(*report.replaces);
    if (replaced != arriving_.end() && ++replaced->second.replaced == workers_.size()) arriving_.erase(replaced);
  }
  if (report.checkpoint) {
    worker.checkpoints = report.checkpoint->value + 1;
    totals_.most_checkpoints = std::max(totals_.most_checkpoints, worker.checkpoints);
    auto& arriving = arriving_[*report.checkpoint];
    if (report.hands_over) ++arriving.handed_over;
    arriving.training_iterations.resize(workers_.size());
    arriving.training_iterations.at(rank.value) = report.training_iteration;
    auto const is_of_one_epoch = check_epoch(report);
    if (rank == Rank{0} && !arriving.is_mixed && (report.hands_over || check_score(report)))
      arriving.rank_0_report = report;
    if (is_of_one_epoch) refuse_missing_checkpoints();
    warn_of_missing_parts();
  }
  if (!report.hands_over) act(RecordMessage{std::move(report)});
}

RAYTRAIN_INLINE void Controller::on(Failed& failed) {
  if (failed.error.rank) note_ended(*failed.error.rank);
  process_is_spent_ = process_is_spent_ || failed.process_is_spent;
  auto const is_lost = failed.process_is_spent && failed.error.code == Errc::worker_failed;
  if (!is_lost || !failed.error.rank || !is_preempted(*failed.error.rank)) return fail_attempt(std::move(failed.error));
  // It was not left the time to end in order.
  cut_short_ = resizing_ = true;
  abort_workers();
}

RAYTRAIN_INLINE void Controller::on(Finished& finished) {
  cut_short_ = cut_short_ || finished.stopped;
  if (finished.stopped && !first_stopped_) first_stopped_ = finished.rank;
  process_is_spent_ = process_is_spent_ || finished.process_is_spent;
  note_ended(finished.rank);
  if (finished.stopped ? !aborting_ : check_calls(finished)) {
    RankReturned returned;
    returned.rank = finished.rank;
    returned.operations = finished.operations;
    tell(returned);
  }
  refuse_missing_checkpoints();
}

RAYTRAIN_INLINE auto Controller::check_calls(Finished const& finished) -> bool {
  if (!first_returned_) first_returned_ = finished;
  auto const& first = *first_returned_;
  if (first.operations == finished.operations && first.calls_digest == finished.calls_digest) return true;
  auto const calls = [](Finished const& of) {
    return "rank " + std::to_string(of.rank.value) + " has called " + std::to_string(of.operations) +
           " collective operations";
  };
  ErrorInfo error{Errc::rank_mismatch,
                  {},
                  calls(first) + " and " + calls(finished) + ", which are not the same ones",
                  "make every rank call the same operations in the same order, on arrays of one size and type"};
  fail_attempt(std::move(error).with_origin(finished.rank, workers_.at(finished.rank.value).hostname));
  return false;
}

RAYTRAIN_INLINE void Controller::note_ended(Rank rank) {
  auto& worker = workers_.at(rank.value);
  set_waits_in_vain(worker, false);
  if (std::exchange(worker.ended, true)) return;
  ++totals_.ended;
  totals_.fewest_of_ended = std::min(totals_.fewest_of_ended, worker.checkpoints);
}

RAYTRAIN_INLINE void Controller::set_waits_in_vain(Worker& worker, bool waits) {
  if (worker.ended || std::exchange(worker.waits_in_vain, waits) == waits) return;
  auto& waiting = totals_.waiting_in_vain;
  waiting = waits ? waiting + 1 : waiting - 1;
}

RAYTRAIN_INLINE void Controller::fail_attempt(ErrorInfo error) {
  state_ = RunState::stopping;
  record_failure(std::move(error));
  abort_workers();
}

RAYTRAIN_INLINE void Controller::record_failure(ErrorInfo error) {
  failures_.push_back(error);
  act(RecordMessage{std::move(error)});
}

RAYTRAIN_INLINE void Controller::abort_workers() {
  if (tell_to_abort()) act(ArmGrace{ArmGrace::Grace::to_return});
}

RAYTRAIN_INLINE auto Controller::tell_to_abort() -> bool {
  if (std::exchange(aborting_, true)) return false;
  grace_is_void_ = false;
  if (!is_terminal(state_)) state_ = RunState::stopping;
  tell(Stop{true});
  return true;
}

RAYTRAIN_INLINE auto Controller::cause() const -> Cause {
  auto const& first = failures_.front();
  // The remedy may name what differs each time, as a process.
  return {first.rank, first.attempted + ": " + first.happened,
          first.rank ? workers_.at(first.rank->value).training_iteration : 0};
}

RAYTRAIN_INLINE auto Controller::has_failed_by_damage() const -> bool {
  return may_find_damage_ &&
         std::ranges::find(failures_, Errc::corrupt_checkpoint, &ErrorInfo::code) != failures_.end();
}

RAYTRAIN_INLINE auto Controller::reason_to_end() const -> std::string {
  auto const most = policy_.failure.max_failures;
  if (process_is_spent_ && !policy_.replaces_processes) {
    return "a process of the job is lost, or has an operation between hosts that MPI cannot take back; the next start "
           "goes on from the last checkpoint";
  }
  for (auto const& failure : failures_) {
    if (!failure.rank) return "what has failed is not a worker";
    switch (failure.code) {
      case Errc::invalid_config:
      case Errc::invalid_call:
      case Errc::invalid_report:
      case Errc::foreign_run:
      case Errc::not_retryable:
        return "an error of the kind " + std::string{to_string(failure.code)} + " would come again";
      default: break;
    }
  }
  if (alike_ + 1 >= attempts_alike && last_cause_ == cause()) {
    return "the same error has come " + std::to_string(attempts_alike) + " times in a row, each time after report " +
           std::to_string(last_cause_->training_iteration) + " of rank " + std::to_string(last_cause_->rank->value);
  }
  if (most >= 0 && failed_ >= static_cast<std::uint32_t>(most) && !has_failed_by_damage()) {
    return "FailureConfig::max_failures is " + std::to_string(most) + "; raise it where more may come";
  }
  return {};
}

RAYTRAIN_INLINE void Controller::restart() {
  RestartWorkers again;
  if (!failures_.empty()) {
    auto const now = cause();
    alike_ = last_cause_ == now ? alike_ + 1 : 1;
    last_cause_ = now;
    if (!has_failed_by_damage()) ++failed_;
  } else {
    last_cause_.reset();  // a failure after it is not the same one in a row
    alike_ = 0;
    warn_of_dropped_checkpoint();
    if (!preemptions_.empty()) ++preempted_;
  }
  if (!failures_.empty() || !preemptions_.empty()) {
    // Each kind has its own wait: a host that is taken away says nothing of the training.
    auto& in_a_row = failures_.empty() ? preempted_since_checkpoint_ : failed_since_checkpoint_;
    std::mt19937_64 random{policy_.wait_seed + failed_ + preempted_};
    again.wait = policy_.failure.backoff_after(++in_a_row, random());
  }
  // Those of which others have failed may be what the launcher of a job does to them.
  if (failures_.empty() || no_stop_came_) again.preemptions = std::exchange(preemptions_, {});
  ++attempt_.value;
  state_ = RunState::restarting;
  first_checkpoint_.value = totals_.most_checkpoints;
  again.failures = std::exchange(failures_, {});
  again.left_behind = std::exchange(ranks_left_behind_, {});
  for (auto const& [checkpoint, parts] : arriving_) again.unfinished.push_back(checkpoint);
  act(std::move(again));
  arriving_.clear();
  first_returned_.reset();
  cut_short_ = true;  // until they are started again
}

RAYTRAIN_INLINE void Controller::warn_of_dropped_checkpoint() {
  if (arriving_.empty()) return;
  act(RecordMessage{
      Warning{"a checkpoint is dropped, since not all parts of it were written before the workers ended"}});
}

RAYTRAIN_INLINE void Controller::finish_when_done() {
  if (state_ == RunState::initializing || !scores_.empty()) return;
  if (state_ == RunState::restarting) {
    if (stop_requested_) finish();
    return;
  }
  if (launched_ && totals_.ended < workers_.size()) return;
  auto const goes_on = resizing_ && cut_short_ && failures_.empty() && !stop_requested_;
  auto const leaves_process = !ranks_left_behind_.empty() && !policy_.replaces_processes;
  if (goes_on && max_preemptions_is_used_up()) {
    if (!fail_by_preemptions()) return;
  } else if (goes_on && !leaves_process) {
    return restart();
  }
  auto const never_restarts = policy_.failure.max_failures == 0 && !has_failed_by_damage();
  if (failures_.empty() || stop_requested_ || leaves_process || never_restarts) return finish();
  auto const reason = reason_to_end();
  if (reason.empty()) return restart();
  act(RecordMessage{Warning{"the workers are not started again: " + reason}});
  finish();
}

RAYTRAIN_INLINE void Controller::finish() {
  // Whoever looks for what the run has reached would find an older one.
  if (lost_checkpoint_) record_failure(std::move(*lost_checkpoint_));
  if (failures_.empty()) warn_of_dropped_checkpoint();
  auto const complete = ranks_left_behind_.empty() && (finished_early_ || (launched_ && !cut_short_));
  state_ = !failures_.empty() ? RunState::errored : complete ? RunState::finished : RunState::aborted;
  if (state_ == RunState::aborted && !stop_requested_ && first_stopped_) {
    act(RecordMessage{Warning{"the run is aborted, since rank " + std::to_string(first_stopped_->value) +
                              " has thrown Stopped, though nobody had asked for a stop"}});
  }
  if (!no_stop_came_ || stop_requested_) preemptions_.clear();
  if (ranks_left_behind_.empty()) {
    for (auto const& [checkpoint, parts] : arriving_) act(DiscardCheckpoint{checkpoint});
  }
  act(FinishRun{state_, std::move(failures_), std::move(ranks_left_behind_), std::move(preemptions_)});
}

RAYTRAIN_INLINE auto Controller::rank_of(Worker const& worker) const -> Rank {
  return {static_cast<std::uint32_t>(&worker - workers_.data())};
}

RAYTRAIN_INLINE auto Controller::unfinished() const -> std::string {
  std::string ranks;
  for (auto const& worker : workers_) {
    if (!worker.ended) ranks += (ranks.empty() ? "rank " : ", rank ") + std::to_string(rank_of(worker).value);
  }
  return ranks;
}

}  // namespace raytrain
