// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <raytrain/checkpoint/retention.hpp>
#include <raytrain/config/checkpoint_config.hpp>
#include <raytrain/core/metrics.hpp>
#include <raytrain/core/rank.hpp>
#include <raytrain/message/message.hpp>
#include <raytrain/train/controller_io.hpp>

namespace raytrain {

/// Decides what a run does next: events in, actions out.
///
/// A pure state machine: it owns no thread, no socket, no file and no clock, and it never waits. Whoever drives it
/// carries out the actions in their order and feeds back what came of them. Once a terminal state is reached, every
/// event is ignored.
///
/// Threads: one at a time.
class Controller {
 public:
  /// `kept`: the checkpoints that lie in the store.
  Controller(WorldSize world, CheckpointConfig config, std::vector<ScoredCheckpoint> kept)
      : workers_(world.value), config_{std::move(config)}, kept_{std::move(kept)} {}

  [[nodiscard]] auto state() const noexcept -> RunState { return state_; }
  [[nodiscard]] auto stop_requested() const noexcept -> bool { return stop_requested_; }

  /// Actions to carry out now, valid until the next call.
  auto handle(RunEvent event) -> std::vector<RunAction>& {
    actions_.clear();
    if (!is_terminal(state_)) {
      std::visit([this](auto& what) { on(what); }, event);
      finish_when_done();
    }
    return actions_;
  }

 private:
  struct Worker {
    std::string hostname;
    bool started = false;
    bool ended = false;
    std::uint64_t checkpoints = 0;  // reports with a checkpoint so far
  };

  // A checkpoint of which some ranks' parts have arrived.
  struct Pending {
    std::vector<CheckpointRef> refs;
    std::optional<Report> lead;  // rank 0's report
    std::vector<std::uint64_t> training_iterations;
  };

  // What was refused or stopped before it began starts no worker.
  void on(RunBegins const&) {
    if (stop_requested_) {
      state_ = RunState::stopping;
      return;
    }
    launched_ = true;
    state_ = RunState::scheduling;
    // What a start left that was killed before its deletions, or that kept more of them.
    delete_surplus();
    act(LaunchWorkers{});
  }

  void on(Message& message) {
    std::visit([this](auto& what) { on(what); }, message);
  }

  void on(Started& started) {
    auto& worker = workers_.at(started.rank.value);
    worker.started = true;
    worker.hostname = started.hostname;
    if (state_ == RunState::scheduling && std::ranges::all_of(workers_, &Worker::started)) state_ = RunState::running;
    act(Notify{std::move(started)});
  }

  void on(Report& report) {
    auto const rank = report.rank;
    if (report.checkpoint) {
      auto& worker = workers_.at(rank.value);
      worker.checkpoints = *report.checkpoint + 1;
      auto& pending = pending_[*report.checkpoint];
      pending.training_iterations.resize(workers_.size());
      pending.training_iterations.at(rank.value) = report.training_iteration;
      if (rank == Rank{0} && check_score(report)) pending.lead = report;
      refuse_missing_checkpoints();
    }
    act(Notify{std::move(report)});
  }

  void on(CheckpointRef& ref) {
    auto const number = ref.checkpoint;
    auto const found = pending_.try_emplace(number).first;
    auto& pending = found->second;
    pending.refs.push_back(std::move(ref));
    // Each rank sends its report before the part that belongs to it, so rank 0's report is there by now.
    if (pending.refs.size() < workers_.size() || !pending.lead) return;
    std::ranges::sort(pending.refs, {}, &CheckpointRef::rank);
    scores_[number] = score_of(pending.lead->metrics);
    act(CommitCheckpoint{number, std::move(pending.refs), std::move(*pending.lead),
                         std::move(pending.training_iterations)});
    pending_.erase(found);
  }

  void on(CheckpointDurable& durable) {
    kept_.push_back({durable.number, scores_.at(durable.checkpoint)});
    scores_.erase(durable.checkpoint);
    // Callbacks read it, and a worker that knows of it may do with it what it likes.
    act(Notify{durable});
    act(TellWorkers{Committed{durable.checkpoint}});
    delete_surplus();
  }

  void on(CheckpointLost& lost) {
    scores_.erase(lost.checkpoint);
    fail(Failed{Rank{0}, std::move(lost.hostname), std::move(lost.text)});
  }

  void on(DriverFailed& failed) { fail(Failed{Rank{0}, std::move(failed.hostname), std::move(failed.text)}); }

  void on(Progress& progress) { act(Notify{std::move(progress)}); }

  void on(Warning& warning) { act(Notify{std::move(warning)}); }

  void on(Failed& failed) {
    end_worker(failed.rank);
    fail(std::move(failed));
  }

  void on(Finished& finished) {
    cut_short_ = cut_short_ || finished.stopped;
    end_worker(finished.rank);
    refuse_missing_checkpoints();
  }

  // Words to workers, which no worker says.
  void on(Stop const&) {}
  void on(Committed const&) {}
  void on(Begin const&) {}
  void on(Left const&) {}
  void on(Ended const&) {}
  void on(LeftBehind const&) {}

  void on(StopAsked const& asked) { on(StopRequest{asked.times}); }

  // Several processes may have had the same signal, which is one request.
  void on(StopRequest const& request) {
    if (stop_requested_ && request.times > 1) {
      tell_to_abort();
      act(ArmGrace{ArmGrace::Grace::at_once});
    }
    if (std::exchange(signalled_, true)) return;
    act(Notify{Warning{Rank{0}, "a stop was requested: workers end at their next report; ask again to end at once"}});
    ask_to_stop();
    arm_grace();
  }

  // A run that has reached what it was started for is in no hurry.
  void on(CallbackStop const& stop) {
    if (stop.finished && !std::exchange(finished_early_, true)) {
      act(Notify{Warning{Rank{0}, "a callback says that the run is finished: workers end at their next report"}});
    } else if (!stop_requested_) {
      act(Notify{Warning{Rank{0}, "a callback asked for a stop: workers end at their next report"}});
    }
    ask_to_stop();
    if (!stop.finished) arm_grace();
  }

  void on(GraceOver const& over) {
    auto const first_time = !aborting_;
    abort_workers();
    if (first_time) return;
    if (over.ends_processes) return leave_behind();
    act(Notify{
        Warning{Rank{0}, "still waiting for " + unfinished() + " to return; a thread cannot be ended from outside"}});
  }

  // A hang is a failure of what has failed; of what was stopped, the person who did that is told.
  void leave_behind() {
    cut_short_ = true;
    for (auto& worker : workers_) {
      if (worker.ended) continue;
      worker.ended = true;
      auto const rank = rank_of(worker);
      left_behind_.push_back(rank);
      std::string const what =
          "did not return although it was told to, and its process is ended: it computes or waits "
          "outside of raytrain";
      if (failures_.empty()) {
        act(Notify{Warning{Rank{0}, "rank " + std::to_string(rank.value) + ' ' + what}});
      } else {
        failures_.emplace_back(rank, worker.hostname, what);
        act(Notify{failures_.back()});
      }
    }
  }

  void ask_to_stop() {
    if (std::exchange(stop_requested_, true)) return;
    if (state_ == RunState::scheduling || state_ == RunState::running) state_ = RunState::stopping;
    act(TellWorkers{Stop{false}});
  }

  void arm_grace() {
    if (!std::exchange(grace_armed_, true)) act(ArmGrace{});
  }

  // A checkpoint is a group operation: a rank that has ended must not owe one that another rank has reported.
  void refuse_missing_checkpoints() {
    if (!failures_.empty() || stop_requested_) return;
    auto const most = std::ranges::max_element(workers_, {}, &Worker::checkpoints);
    for (auto const& worker : workers_) {
      if (!worker.ended || worker.checkpoints >= most->checkpoints) continue;
      fail(Failed{rank_of(worker),
                  {},
                  "reporting checkpoints: rank " + std::to_string(rank_of(worker).value) + " returned after " +
                      std::to_string(worker.checkpoints) + " of them, rank " + std::to_string(rank_of(*most).value) +
                      " has reported " + std::to_string(most->checkpoints) +
                      "; call report with a checkpoint equally often on every rank"});
      return;
    }
  }

  // Whether a checkpoint with this report may be committed.
  auto check_score(Report const& report) -> bool {
    if (config_.score_attribute.empty()) return true;
    auto const score = report.metrics.number(config_.score_attribute);
    if (score && std::isfinite(*score)) return true;
    if (!score) {
      fail(Failed{report.rank,
                  {},
                  "CheckpointConfig::score_attribute: no number of the name '" + config_.score_attribute +
                      "' is in the report; there are " + report.metrics.names() + "; name one of them"});
      return false;
    }
    auto const happened = "CheckpointConfig::score_attribute: '" + config_.score_attribute + "' is " +
                          std::to_string(*score) + " in report " + std::to_string(report.training_iteration);
    if (config_.fail_on_non_finite_score) {
      fail(Failed{report.rank, {}, happened + ", whose checkpoint is not kept; lower the learning rate, for instance"});
      return false;
    }
    if (!std::exchange(warned_of_score_, true)) {
      act(Notify{Warning{Rank{0}, happened +
                                      ": its checkpoint is never the best; fail_on_non_finite_score = true ends a "
                                      "run there"}});
    }
    return true;
  }

  [[nodiscard]] auto score_of(Metrics const& metrics) const -> std::optional<double> {
    return config_.score_attribute.empty() ? std::nullopt : metrics.number(config_.score_attribute);
  }

  void end_worker(Rank rank) { workers_.at(rank.value).ended = true; }

  void fail(Failed failed) {
    failures_.push_back(failed);
    state_ = RunState::stopping;
    act(Notify{std::move(failed)});
    abort_workers();
  }

  void delete_surplus() {
    for (auto const number : checkpoints_to_delete(kept_, config_)) {
      std::erase_if(kept_, [&](auto const& kept) { return kept.number == number; });
      act(DeleteCheckpoint{number});
    }
  }

  void abort_workers() {
    if (tell_to_abort()) act(ArmGrace{ArmGrace::Grace::to_return});
  }

  /// False when they were told before.
  auto tell_to_abort() -> bool {
    if (std::exchange(aborting_, true)) return false;
    if (!is_terminal(state_)) state_ = RunState::stopping;
    act(TellWorkers{Stop{true}});
    return true;
  }

  void finish_when_done() {
    if (state_ == RunState::initializing || !scores_.empty()) return;
    if (launched_ && !std::ranges::all_of(workers_, &Worker::ended)) return;
    auto const complete = left_behind_.empty() && (finished_early_ || (launched_ && !cut_short_));
    state_ = !failures_.empty() ? RunState::errored : complete ? RunState::finished : RunState::aborted;
    act(FinishRun{state_, std::move(failures_), std::move(left_behind_)});
  }

  [[nodiscard]] auto rank_of(Worker const& worker) const -> Rank {
    return {static_cast<std::uint32_t>(&worker - workers_.data())};
  }

  [[nodiscard]] auto unfinished() const -> std::string {
    std::string ranks;
    for (auto const& worker : workers_) {
      if (!worker.ended) ranks += (ranks.empty() ? "rank " : ", rank ") + std::to_string(rank_of(worker).value);
    }
    return ranks;
  }

  template <class A>
  void act(A action) {
    actions_.emplace_back(std::move(action));
  }

  RunState state_ = RunState::initializing;
  std::vector<Worker> workers_;
  std::map<std::uint64_t, Pending> pending_;
  std::vector<Failed> failures_;
  std::vector<Rank> left_behind_;
  std::vector<RunAction> actions_;
  std::map<std::uint64_t, std::optional<double>> scores_;  // of the checkpoints that are being committed
  CheckpointConfig config_;
  std::vector<ScoredCheckpoint> kept_;
  bool launched_ = false;
  bool stop_requested_ = false;
  bool signalled_ = false;       // a signal was among the requests
  bool finished_early_ = false;  // a callback said that the run is finished
  bool grace_armed_ = false;
  bool warned_of_score_ = false;
  bool aborting_ = false;
  bool cut_short_ = false;  // a worker ended because of a stop
};

}  // namespace raytrain
