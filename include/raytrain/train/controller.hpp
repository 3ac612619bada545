// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <raytrain/checkpoint/retention.hpp>
#include <raytrain/config/checkpoint_config.hpp>
#include <raytrain/config/failure_config.hpp>
#include <raytrain/config/scaling_config.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/metrics.hpp>
#include <raytrain/message/message.hpp>
#include <raytrain/train/controller_events.hpp>
#include <raytrain/train/elastic_size.hpp>
#include <raytrain/train/straggler_watch.hpp>

namespace raytrain {

/// By which settings a `Controller` decides.
struct RunPolicy {
  CheckpointConfig checkpoint{};
  FailureConfig failure{};
  std::uint64_t wait_seed = 0;      ///< Of what is random in the time before workers are started again.
  bool replaces_processes = false;  ///< As `Launcher::replaces_processes`.
  WorkerRange workers{};            ///< Of an elastic run.
  WorldSize room{1};                ///< As in `RoomChanged`, at the beginning of an elastic run.
};

/// Decides what a run does next: events in, actions out.
///
/// A pure state machine: it owns no thread, no socket, no file and no clock, and it never waits. Whoever drives it
/// carries out the actions in their order and feeds back what came of them. Once a terminal state is reached, every
/// event is ignored.
///
/// Threads: one at a time.
class Controller {
 public:
  /// `world`: the first workers. `kept`: the checkpoints that lie in the store.
  Controller(WorldSize world, RunPolicy policy, std::vector<ScoredCheckpoint> kept)
      : workers_(world.value),
        policy_{std::move(policy)},
        kept_{std::move(kept)},
        size_{world, policy_.workers, policy_.room} {}

  [[nodiscard]] auto state() const noexcept -> RunState { return state_; }
  [[nodiscard]] auto stop_requested() const noexcept -> bool { return stop_requested_; }

  /// Actions to carry out now, valid until the next call.
  auto handle(RunEvent event) -> std::vector<RunAction>&;

 private:
  static constexpr std::uint32_t attempts_alike = 3;  // so many in a row that fail alike end the run

  struct Worker {
    std::string hostname;
    bool started = false;
    bool ended = false;
    bool waits_in_vain = false;            // for others, for as long as `FailureConfig::hang_timeout`
    std::uint64_t checkpoints = 0;         // reports with a checkpoint so far
    std::uint64_t training_iteration = 0;  // of its last report
  };

  // Counts over the workers of an attempt, so that no message has to look at all of them.
  struct Totals {
    std::size_t started = 0;
    std::size_t ended = 0;
    std::size_t waiting_in_vain = 0;     // and not ended
    std::uint64_t most_checkpoints = 0;  // of any worker
    std::uint64_t fewest_of_ended = std::numeric_limits<std::uint64_t>::max();
  };

  // By what an attempt has failed, and how far it had come.
  struct Cause {
    std::optional<Rank> rank;
    std::string text;
    std::uint64_t training_iteration{};
    friend auto operator==(Cause const&, Cause const&) -> bool = default;
  };

  // A checkpoint of which some ranks' parts have arrived.
  struct ArrivingCheckpoint {
    std::vector<CheckpointRef> refs;  // by rank
    std::size_t arrived = 0;          // of them
    std::size_t handed_over = 0;      // by `TrainContext::hand_over`, as all or none must be
    std::size_t replaced = 0;         // by ranks that have copied a newer state in its place
    std::optional<Report> rank_0_report;
    std::optional<ErrorInfo> failure;  // why a part could not be written, and the run goes on
    std::vector<std::uint64_t> training_iterations;
    std::optional<std::pair<Rank, std::int64_t>> epoch;  // that the first rank has reported with it
    bool is_mixed = false;                               // of several epochs, and not to be committed
  };

  // Launches no worker if a stop was requested before.
  void on(RunBegins const& begins);

  void on(RestartDue const& due);

  void on(LaunchFailed& failed);

  // Ignores what workers of another attempt say of themselves.
  void on(WorkerMessage& message);

  // A worker that waits for others is not the one that hangs, unless all of them wait.
  void on(Silent& silent);

  void on(StartIsDue const& due);

  void on(Started& started);

  void on(Report& report);

  void on(CheckpointRef& ref);

  void on(CheckpointDurable& durable);

  void on(CheckpointLost& lost);

  // The run goes on without one that could not be written.
  void lose_checkpoint(CheckpointOrdinal checkpoint, ErrorInfo error);

  void on(Progress& progress) { act(RecordMessage{std::move(progress)}); }

  void warn_of_straggler(Report const& report);

  void on(Warning& warning) { act(RecordMessage{std::move(warning)}); }
  void on(PrintedLine& line) { act(RecordMessage{std::move(line)}); }

  void on(Failed& failed);

  void on(Finished& finished);

  // Whether this rank has made the same calls as the first rank that returned. Between hosts nobody has compared the
  // last ones.
  auto check_calls(Finished const& finished) -> bool;

  // A signal may reach several processes of the job: all of that is one request.
  void on(StopRequest const& request);

  // Arms no grace when the run is finished: workers may take as long as they like.
  void on(CallbackStop const& stop);

  void on(GraceOver const& over);

  // The attempt ends as for another number of workers.
  void on(Preempted const& preempted);
  void tell_of_late_notice(Preempted const& preempted);

  [[nodiscard]] auto is_preempted(Rank rank) const -> bool;

  // For an attempt that has ended only because a process was taken away.
  [[nodiscard]] auto max_preemptions_is_used_up() const -> bool;

  // False while a stop of the run may still come, by the same cause; that then counts, and not a failure.
  auto fail_by_preemptions() -> bool;

  void on(ResizeAsked const& asked);

  void on(RoomChanged const& changed) {
    size_.set_room(changed.room);
    resize_if_due(changed.moves);
  }

  // Ends the workers in order, if another number of them is to go on, or if they are to go on in other processes.
  void resize_if_due(bool moves = false);

  void warn_of_dropped_checkpoint();

  // Gives up workers that did not return: a failure of a run that has failed, otherwise a warning.
  void leave_workers_behind();

  void ask_to_stop();

  void arm_grace();
  // The end of the grace of a resize then counts for nothing, since a stop of the run has its own. That of an abort
  // stays.
  void void_grace() { grace_is_void_ = std::exchange(grace_armed_, false) && !aborting_; }

  // A checkpoint is a group operation: a rank that has ended must not owe one that another rank has reported.
  void refuse_missing_checkpoints();

  // Once, where some ranks report checkpoints and others none: nothing of them is kept.
  void warn_of_missing_parts();

  // Whether this rank reports the epoch that others have reported with the checkpoint; true where it reports none.
  auto check_epoch(Report const& report) -> bool;

  // Whether a checkpoint with this report may be committed.
  auto check_score(Report const& report) -> bool;

  [[nodiscard]] auto score_of(Metrics const& metrics) const -> std::optional<double>;

  void note_ended(Rank rank);

  void set_waits_in_vain(Worker& worker, bool waits);

  // Ends the attempt: records the error, and aborts the workers.
  void fail_attempt(ErrorInfo error);

  // Keeps the error for the end of the attempt, and has it told to the callbacks. Workers go on.
  void record_failure(ErrorInfo error);

  void launch(std::uint64_t training_iteration);

  // Whether a damaged file of the checkpoint that the attempt began from is the cause. Nobody had verified the files.
  [[nodiscard]] auto has_failed_by_damage() const -> bool;

  // Why the workers that have failed are not started again; empty where they are.
  [[nodiscard]] auto reason_to_end() const -> std::string;

  void restart();

  [[nodiscard]] auto cause() const -> Cause;

  /// Tells workers, in this attempt's name.
  template <class Message>
  void tell(Message message) {
    message.attempt = attempt_;
    act(TellWorkers{std::move(message)});
  }

  void delete_surplus();

  void abort_workers();

  /// False when they were told before.
  auto tell_to_abort() -> bool;

  void finish_when_done();

  void finish();

  [[nodiscard]] auto rank_of(Worker const& worker) const -> Rank;

  [[nodiscard]] auto unfinished() const -> std::string;

  template <class A>
  void act(A action) {
    actions_.emplace_back(std::move(action));
  }

  RunState state_ = RunState::initializing;
  Attempt attempt_;
  std::vector<Worker> workers_;
  Totals totals_;
  std::map<CheckpointOrdinal, ArrivingCheckpoint> arriving_;
  CheckpointOrdinal first_checkpoint_;  // of this attempt
  StragglerWatch stragglers_{WorldSize{static_cast<std::uint32_t>(workers_.size())}};
  std::vector<ErrorInfo> failures_;
  std::vector<Rank> ranks_left_behind_;
  std::vector<RunAction> actions_;
  std::map<CheckpointOrdinal, std::optional<double>> scores_;  // of the checkpoints that are being committed
  RunPolicy policy_;
  std::vector<ScoredCheckpoint> kept_;
  std::optional<ErrorInfo> lost_checkpoint_;  // why there is no newer one, and the run goes on
  std::optional<CheckpointOrdinal> lost_;     // which one that is
  std::optional<CheckpointOrdinal> durable_;  // the newest one
  std::optional<Cause> last_cause_;           // of the attempt before this one
  std::uint32_t alike_ = 0;                   // attempts in a row that failed by it
  std::uint32_t failed_ = 0;                  // attempts
  std::uint32_t failed_since_checkpoint_ = 0;
  std::vector<ErrorInfo> preemptions_;  // of this attempt
  std::uint32_t preempted_ = 0;         // attempts that count as such
  std::uint32_t preempted_since_checkpoint_ = 0;
  bool waits_for_stop_ = false;  // before this attempt counts as one that has failed
  bool no_stop_came_ = false;
  std::optional<Finished> first_returned_;
  bool launched_ = false;
  bool may_find_damage_ = false;  // this attempt began from files that nobody had verified, and has committed none
  ElasticSize size_;
  bool resizing_ = false;  // this attempt's workers were told to end, since another attempt follows
  bool stop_requested_ = false;
  bool signalled_ = false;       // a signal was among the requests
  bool finished_early_ = false;  // a callback said that the run is finished
  bool grace_armed_ = false;
  bool grace_is_void_ = false;  // the one that is armed
  bool warned_of_score_ = false;
  bool warned_of_missing_parts_ = false;
  bool aborting_ = false;   // this attempt's workers were told to
  bool cut_short_ = false;  // a worker ended because of a stop
  std::optional<Rank> first_stopped_;
  bool process_is_spent_ = false;  // one in which no other worker can run
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/train/controller-inl.hpp>
#include <raytrain/train/controller_checkpoints-inl.hpp>
#include <raytrain/train/controller_stops-inl.hpp>
#endif
