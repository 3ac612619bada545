// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/checkpoint/checkpoint_copies.hpp>
#include <raytrain/checkpoint/checkpoint_store.hpp>
#include <raytrain/checkpoint/run_directory.hpp>
#include <raytrain/collective/wait_limits.hpp>
#include <raytrain/config/run_config.hpp>
#include <raytrain/core/clock.hpp>
#include <raytrain/core/current_error.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/metrics.hpp>
#include <raytrain/data/datasets.hpp>
#include <raytrain/exec/background_thread.hpp>
#include <raytrain/exec/channel.hpp>
#include <raytrain/exec/executor.hpp>
#include <raytrain/exec/scope.hpp>
#include <raytrain/exec/timer.hpp>
#include <raytrain/launch/hang_watch.hpp>
#include <raytrain/launch/host.hpp>
#include <raytrain/launch/launcher.hpp>
#include <raytrain/launch/message_sink.hpp>
#include <raytrain/message/message.hpp>
#include <raytrain/preprocess/any_preprocessor.hpp>
#include <raytrain/train/append_file.hpp>
#include <raytrain/train/callback.hpp>
#include <raytrain/train/controller.hpp>
#include <raytrain/train/detail/copy_exchange.hpp>
#include <raytrain/train/detail/fit_plan.hpp>
#include <raytrain/train/detail/resize_requests.hpp>
#include <raytrain/train/detail/resume_point.hpp>
#include <raytrain/train/detail/run_callbacks.hpp>
#include <raytrain/train/detail/stop_signals.hpp>
#include <raytrain/train/result.hpp>
#include <raytrain/train/run_history.hpp>
#include <raytrain/train/worker_setup.hpp>

namespace raytrain::detail {

/// Drives a `Controller` live: feeds it the workers' messages, signals, timers and finished file work, and carries
/// out its actions. One object per `fit()`.
///
/// Threads: the caller's of `fit()`, on which the executor runs until the last worker has ended.
class RunDriver final : private MessageQueue {
 public:
  struct Plan {
    FitPlan const& fit;
    RunDirectory& directory;
    Clock::TimePoint called;                  ///< When `fit()` was called.
    bool ends_processes;                      ///< Workers that do not return are ended with their processes.
    std::chrono::milliseconds start_timeout;  ///< As in `ScalingConfig`; 0: none.
    std::function<void()> restart_backend;    ///< Before workers are launched again; may throw.
  };

  RunDriver(Launcher& launcher, Plan plan)
      : launcher_{launcher},
        plan_{std::move(plan)},
        executor_{plan_.fit.clock},
        events_{executor_, event_capacity},
        store_{plan_.directory.store()},
        resume_point_{store_, plan_.fit.run.resume_from_checkpoint, plan_.directory.damaged_checkpoints()},
        host_{this_host()} {}
  /// Trains until every worker has ended. Errors: `TrainingFailed` when one of them failed.
  auto run() -> Result;

 private:
  /// What is known of the present attempt.
  struct AttemptState {
    Clock::TimePoint launched{};
    Clock::TimePoint saved{};  ///< When rank 0 reported what is committed: a restart repeats what came later.
    Clock::TimePoint all_began{};
    std::map<Rank, Started> workers{};
    std::map<CheckpointOrdinal, Clock::TimePoint> reported_checkpoints{};  ///< Rank 0's.
    std::optional<CheckpointNumber> committed{};                           ///< The newest one.
  };

  static constexpr std::size_t event_capacity = 1024;
  static constexpr std::chrono::milliseconds at_once{500};
  static constexpr std::chrono::milliseconds room_interval{250};

  void end_workers();

  auto send(WorkerMessage message) -> bool override { return events_.send(RunEvent{std::move(message)}); }
  auto try_send(WorkerMessage& message) -> bool override;
  void push(WorkerMessage message) override { events_.push(RunEvent{std::move(message)}); }

  [[nodiscard]] auto wait_limits() -> WaitLimits;

  auto drive() -> asio::awaitable<void> {
    Scope waiting{executor_};
    waiting_ = &waiting;
    if (room_watch_) waiting.spawn(watch_room());
    report_own_failures();
    while (!outcome_ && !launch_error_) {
      auto event = co_await events_.receive();
      fill_in_asked_size(*event);
      expect_copy_of_signal(*event);
      if (!is_early_silence(*event)) perform(controller_->handle(std::move(*event)));
      report_own_failures();
    }
    waiting.cancel();
    try {
      co_await waiting.join();
    } catch (std::exception const& error) {
      // The workers have ended: what failed beside them takes nothing from what they reached.
      callbacks_.warn("waiting for the end of the grace: " + std::string{error.what()});
    }
    waiting_ = nullptr;
  }

  // What comes too late for the controller: warnings of deletions, printed lines, and requests to stop.
  auto take_late_events() -> asio::awaitable<void> {
    events_.close();
    while (auto event = co_await events_.receive()) {
      auto* const message = std::get_if<WorkerMessage>(&*event);
      auto* const warning = message != nullptr ? std::get_if<Warning>(message) : nullptr;
      if (warning != nullptr) callbacks_.warn(std::move(warning->text));
      auto const* const line = message != nullptr ? std::get_if<PrintedLine>(message) : nullptr;
      if (line != nullptr) callbacks_.print(line->text);
      if (message != nullptr && std::holds_alternative<StopRequest>(*message)) stop_came_late_ = true;
    }
  }

  [[nodiscard]] auto duration_of(ArmGrace::Grace grace) const -> std::chrono::milliseconds;

  auto wait_grace(std::uint64_t armed, ArmGrace::Grace grace) -> asio::awaitable<void> {
    Timer timer{executor_};
    auto const due = co_await timer.wait_until(plan_.fit.clock.after(duration_of(grace)));
    auto const ends_processes = grace == ArmGrace::Grace::at_once || plan_.ends_processes;
    if (due && armed == armed_graces_) events_.push(RunEvent{GraceOver{ends_processes}});
  }

  // Waits until workers that have not begun to train are late.
  auto watch_start(Attempt attempt) -> asio::awaitable<void> {
    Timer timer{executor_};
    auto const over = co_await timer.wait_until(plan_.fit.clock.after(plan_.start_timeout));
    if (over && !all_work()) events_.push(RunEvent{StartIsDue{attempt, plan_.start_timeout}});
  }

  void watch(Attempt attempt) {
    if (plan_.start_timeout.count() > 0) waiting_->spawn(watch_start(attempt));
  }

  // Where hosts may come and go.
  auto watch_room() -> asio::awaitable<void> {
    Timer timer{executor_};
    while (true) {
      auto const due = co_await timer.wait_until(plan_.fit.clock.after(room_interval));
      if (!due) co_return;
      if (!looks_for_room_.exchange(true)) room_watch_->post([this] { look_for_room(); });
    }
  }

  void look_for_room();

  // Another rank was sent a signal, of which this process may have a copy yet to come.
  void expect_copy_of_signal(RunEvent const& event) {
    auto const* const message = std::get_if<WorkerMessage>(&event);
    auto const* const request = message == nullptr ? nullptr : std::get_if<StopRequest>(message);
    auto const came_elsewhere = request != nullptr && request->rank != Rank{0};
    if (came_elsewhere && plan_.fit.run.handle_signals) StopSignals::drop_echoes();
  }

  // Puts the number of workers that was asked for last into a `ResizeAsked`.
  void fill_in_asked_size(RunEvent& event) {
    auto* const asked = std::get_if<ResizeAsked>(&event);
    if (asked == nullptr) return;
    if (!asked->is_change) asked->workers = workers_asked_.exchange(0);
    launcher_.replace_lost();
  }

  // Whether a worker may have been silent only while it waited for workers that began later. If it stays silent,
  // `HangWatch` tells again.
  [[nodiscard]] auto is_early_silence(RunEvent const& event) const -> bool {
    auto const* const message = std::get_if<WorkerMessage>(&event);
    auto const* const silent = message == nullptr ? nullptr : std::get_if<Silent>(message);
    if (silent == nullptr || silent->silent_ms == 0) return false;
    auto const since_start = std::chrono::floor<std::chrono::milliseconds>(plan_.fit.clock.now() - attempt_.all_began);
    return !all_work() || since_start < plan_.fit.run.failure.hang_timeout;
  }

  // Every worker of this attempt has begun.
  [[nodiscard]] auto all_work() const -> bool { return attempt_.workers.size() == launcher_.size().value; }

  void perform(std::vector<RunAction>& actions);

  // The controller judges what failed while its actions were carried out before anything that happened later.
  void report_own_failures();

  // Keeps an error of the driver's own for the controller, each text once: what fails at one report mostly fails at
  // each.
  void record_failure(ErrorInfo error);

  void carry_out(LaunchWorkers const& launch);

  void carry_out(RestartWorkers& restart);

  auto wait_backoff(RestartWorkers restart) -> asio::awaitable<void> {
    Timer timer{executor_};
    auto const due = co_await timer.wait_until(plan_.fit.clock.after(restart.wait));
    if (!due) co_return;
    store_thread_->post([this, unfinished = std::move(restart.unfinished), kept = kept_checkpoint()] {
      look_for_checkpoint(unfinished, kept);
    });
  }

  // On the store thread: the parts that workers have left are discarded, and the newest checkpoint
  // is the one to go on from.
  void look_for_checkpoint(std::vector<CheckpointOrdinal> const& unfinished, std::optional<CheckpointNumber> kept);

  // The checkpoint that a worker of the next attempt has in memory, if the attempt before has committed it.
  [[nodiscard]] auto kept_checkpoint() -> std::optional<CheckpointNumber>;

  // When the run has ended: those in the store, looked for on the store thread while there is one.
  [[nodiscard]] auto whole_checkpoints() -> std::vector<Checkpoint>;

  void launch(LaunchWorkers const& action);

  // Says to callbacks and in progress.jsonl what the attempt before has cost.
  void tell_of_restart();

  [[nodiscard]] auto seconds_since(Clock::TimePoint time) const -> double;

  void carry_out(TellWorkers const& tell);

  void carry_out(ArmGrace const& arm) { waiting_->spawn(wait_grace(++armed_graces_, arm.grace)); }

  void carry_out(CommitCheckpoint& commit);

  void carry_out(DeleteCheckpoint const& action);

  void carry_out(DiscardCheckpoint const& action);

  void carry_out(RecordMessage& record);

  void carry_out(FinishRun& finish) { outcome_ = std::move(finish); }

  void record(Started& started);

  void record(Report& report);

  void record(CheckpointDurable const& durable);

  void record(Progress const& progress);

  void record(Warning& warning) { callbacks_.warn(std::move(warning.text)); }

  void record(PrintedLine const& line) { callbacks_.print(line.text); }

  void record(ErrorInfo const& error) { callbacks_.tell(error); }

  // Appends a line to progress.jsonl; fails the run if it cannot be written.
  void log(Metrics const& all);

  void announce();

  [[nodiscard]] static auto names_in(Metrics const& metrics) -> std::vector<std::string>;

  // Mean time between the failures in this start; 0 without any.
  [[nodiscard]] auto between_failures_s() const -> double;
  /// With which an attempt's first report is compared: none in a later one, which goes on in the middle of the run.
  [[nodiscard]] auto known_report_fields(Attempt attempt) const -> std::vector<std::string> {
    return attempt > Attempt{} ? std::vector<std::string>{} : plan_.directory.report_fields();
  }

  [[nodiscard]] auto since_call() const -> double { return seconds_since(plan_.called); }

  void record_state();

  // What fails at the end is one more failure, and hides no other.
  template <class F>
  void collecting_failures(F const& function) {
    try {
      function();
    } catch (...) {
      record_failure(current_error());
    }
    take_late_failures();
  }

  void take_late_failures();

  // Makes the result, tells callbacks, and throws `TrainingFailed` if anything has failed. `signals` are watched until
  // callbacks have seen the end.
  auto conclude(std::optional<StopSignals>& signals) -> Result;

  void set_outcome_in(Result& result) const;

  Launcher& launcher_;
  Plan plan_;
  Executor executor_;
  Channel<RunEvent> events_;
  CheckpointStore& store_;
  ResumePoint resume_point_;                                                        // of the attempt
  std::shared_ptr<CheckpointCopies> copies_ = copies_as(plan_.fit.run.checkpoint);  // of rank 0's process
  Host host_;
  std::optional<BackgroundThread> store_thread_{
      std::in_place};                           // stages the parts of this process, commits and deletes
  std::optional<BackgroundThread> room_watch_;  // of hosts that come and go
  std::atomic<bool> looks_for_room_{false};
  Room room_seen_;                              // on that thread
  std::atomic<std::int64_t> workers_asked_{0};  // not handled yet; 0: none
  HangWatch hang_watch_{plan_.fit.run.failure.hang_timeout};
  std::optional<Controller> controller_;
  std::vector<AttemptInfo> attempts_;  // the last one is the present one
  AttemptState attempt_;               // likewise
  std::uint64_t failed_attempts_ = 0;
  std::vector<std::string> lost_hosts_;  // since the attempt before
  Scope* waiting_ = nullptr;             // while `drive` runs
  std::uint64_t armed_graces_ = 0;       // the end of any but the last one is ignored
  AppendFile log_;                       // progress.jsonl
  RunHistory history_;
  RunCallbacks callbacks_{plan_.fit.callbacks, [this](ErrorInfo error) { record_failure(std::move(error)); }};
  std::deque<ErrorInfo> failures_;       // of the driver, not judged yet
  std::set<std::string> failure_texts_;  // of all of them
  Timings timings_;
  bool reported_ = false;  // any worker, in this start
  std::atomic<bool> stop_came_late_{false};
  std::optional<FinishRun> outcome_;
  std::exception_ptr launch_error_;
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/train/detail/run_driver-inl.hpp>
#include <raytrain/train/detail/run_driver_checkpoints-inl.hpp>
#endif
