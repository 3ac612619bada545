// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/checkpoint/directory_store.hpp>
#include <raytrain/checkpoint/run_directory.hpp>
#include <raytrain/collective/wait_limits.hpp>
#include <raytrain/config/run_config.hpp>
#include <raytrain/core/clock.hpp>
#include <raytrain/core/metrics.hpp>
#include <raytrain/core/rank.hpp>
#include <raytrain/data/datasets.hpp>
#include <raytrain/exec/background_thread.hpp>
#include <raytrain/exec/channel.hpp>
#include <raytrain/exec/executor.hpp>
#include <raytrain/exec/scope.hpp>
#include <raytrain/exec/timer.hpp>
#include <raytrain/launch/host.hpp>
#include <raytrain/launch/launcher.hpp>
#include <raytrain/message/message.hpp>
#include <raytrain/message/report_line.hpp>
#include <raytrain/train/callback.hpp>
#include <raytrain/train/controller.hpp>
#include <raytrain/train/result.hpp>
#include <raytrain/train/run_history.hpp>
#include <raytrain/train/stop_signals.hpp>
#include <raytrain/train/training_failed.hpp>
#include <raytrain/train/worker_runner.hpp>
#include <raytrain/train/worker_setup.hpp>

namespace raytrain::detail {

/// Drives a `Controller` live: feeds it the workers' messages, signals, timers and finished file work, and carries
/// out its actions. One object per `fit()`.
///
/// Threads: the caller's of `fit()`, on which the executor runs until the last worker has ended.
class RunDriver {
 public:
  using Training = std::function<bool(WorkerSetup)>;

  struct Plan {
    RunConfig const& run;
    RunDirectory& directory;
    Callbacks callbacks;
    std::string backend;
    DataConfig data;
    Datasets datasets;
    Clock& clock;
    Clock::TimePoint called;  ///< When `fit()` was called.
  };

  RunDriver(Launcher& launcher, Plan plan)
      : launcher_{launcher},
        plan_{std::move(plan)},
        executor_{plan_.clock},
        events_{executor_, event_capacity},
        store_{plan_.directory.checkpoints_path(), plan_.directory.attempt()},
        host_{this_host()} {}

  /// Trains until every worker has ended. Errors: `TrainingFailed` when one of them failed.
  auto run(Training const& training) -> Result {
    store_.sweep();
    std::vector<std::string> reasons;
    auto const checkpoint = store_.newest_valid([&](std::filesystem::path const& path, std::string_view reason) {
      skipped_.push_back(path);
      reasons.push_back("skipped " + path.string() + ": " + std::string{reason});
    });
    history_ = RunHistory::read(plan_.directory.progress_path());
    controller_.emplace(launcher_.size(), plan_.run.checkpoint, scored(whole_checkpoints(), plan_.run.checkpoint));
    announce(checkpoint);
    for (auto& text : reasons) warn(std::move(text));
    // Behind what callbacks had to say: a refusal comes before any worker.
    events_.push(RunEvent{RunBegins{}});

    auto const shared = std::make_shared<RunShared const>(RunShared{
        plan_.directory.name(), plan_.directory.path(), plan_.run.seed, plan_.datasets, plan_.data,
        plan_.run.checkpoint.mode, checkpoint, plan_.directory.report_fields(), plan_.clock, store_, *writer_});
    launch_ = [this, shared, training] {
      launcher_.launch({[shared, training](Worker worker) { run_worker(std::move(worker), shared, training); },
                        sink_of_events(), wait_limits(), plan_.directory.begin_with(shared->checkpoint)});
    };
    executor_.run(drive());
    launcher_.join();
    writer_.reset();
    executor_.run(take_late_warnings());
    if (launch_error_) {
      (void)record_state(RunState::errored, "no worker could be started");
      std::rethrow_exception(launch_error_);
    }
    return conclude();
  }

 private:
  static constexpr std::size_t event_capacity = 1024;

  [[nodiscard]] auto sink_of_events() -> MessageSink {
    return {[this](Message message) { events_.send(RunEvent{std::move(message)}); },
            [this](Message& message) {
              RunEvent event{std::move(message)};
              auto const sent = events_.try_send(event);
              if (!sent) message = std::move(std::get<Message>(event));
              return sent;
            },
            [this](Message message) { events_.push(RunEvent{std::move(message)}); }};
  }

  [[nodiscard]] auto wait_limits() -> WaitLimits {
    return {.timeout = plan_.run.collective_timeout, .on_warning = [this](std::string const& text) {
              events_.send(RunEvent{Message{Warning{Rank{0}, text}}});
            }};
  }

  auto drive() -> asio::awaitable<void> {
    std::optional<StopSignals> signals;
    Scope scope{executor_};
    scope_ = &scope;
    if (plan_.run.handle_signals) {
      signals.emplace(executor_, scope, [this](std::uint32_t times) { events_.push(RunEvent{StopRequest{times}}); });
    }
    while (!outcome_ && !launch_error_) {
      auto event = co_await events_.receive();
      perform(controller_->handle(std::move(*event)));
    }
    if (signals) co_await signals->settle();
    scope.cancel();
    co_await scope.join();
    scope_ = nullptr;
  }

  // What a deletion after the last event had to say.
  auto take_late_warnings() -> asio::awaitable<void> {
    events_.close();
    while (auto event = co_await events_.receive()) {
      auto* const message = std::get_if<Message>(&*event);
      auto* const warning = message != nullptr ? std::get_if<Warning>(message) : nullptr;
      if (warning != nullptr) warn(std::move(warning->text));
    }
  }

  auto wait_grace(std::uint64_t armed) -> asio::awaitable<void> {
    Timer timer{executor_};
    constexpr std::chrono::hours longest{24 * 365};  // a time beyond what a clock can count would be in the past
    auto const grace = std::min<std::chrono::milliseconds>(plan_.run.stop_grace, longest);
    auto const due = co_await timer.wait_until(plan_.clock.now() + grace);
    if (due && armed == grace_) events_.push(RunEvent{GraceOver{}});
  }

  void perform(std::vector<RunAction>& actions) {
    for (auto& action : actions) {
      try {
        std::visit([this](auto& what) { this->carry_out(what); }, action);
      } catch (std::exception const& error) {
        events_.push(RunEvent{DriverFailed{host_.hostname, error.what()}});
      }
    }
  }

  void carry_out(LaunchWorkers const&) {
    try {
      launch_();
    } catch (...) {
      launch_error_ = std::current_exception();  // no worker runs, so there is nothing to wait for
    }
  }

  void carry_out(TellWorkers const& tell) { launcher_.tell(tell.message); }

  void carry_out(ArmGrace const&) { scope_->spawn(wait_grace(++grace_)); }

  void carry_out(CommitCheckpoint& commit) {
    writer_->post([this, commit = std::move(commit)]() mutable {
      try {
        auto const checkpoint = commit.checkpoint;
        auto const committed =
            store_.commit({checkpoint, commit.lead.training_iteration, commit.lead.time_total_s, launcher_.size(),
                           std::move(commit.lead.metrics), std::move(commit.refs)});
        events_.send(RunEvent{CheckpointDurable{checkpoint, committed.number()}});
      } catch (std::exception const& error) {
        events_.send(RunEvent{CheckpointLost{commit.checkpoint, host_.hostname, error.what()}});
      }
    });
  }

  void carry_out(DeleteCheckpoint const& action) {
    writer_->post([this, number = action.number] {
      try {
        store_.remove(number);
      } catch (std::exception const& error) {
        events_.send(RunEvent{Message{Warning{Rank{0}, error.what()}}});
      }
    });
  }

  void carry_out(Notify& notify) {
    std::visit([this](auto& what) { this->tell_callbacks(what); }, notify.what);
  }

  void carry_out(FinishRun& finish) { outcome_ = std::move(finish); }

  void tell_callbacks(Started& started) {
    workers_[started.rank] = std::move(started);
    if (workers_.size() == launcher_.size().value) timings_.to_workers_s = since_call();
  }

  void tell_callbacks(Report& report) {
    if (!reported_) {
      reported_ = true;
      timings_.to_first_report_s = since_call();
    }
    if (report.rank == Rank{0} && plan_.directory.report_fields().empty()) {
      plan_.directory.record_report_fields(names_in(report.metrics));
    }
    auto all = all_metrics(report, workers_.at(report.rank));
    call([&](Callback& callback) { callback.on_report(report, all); });
    history_.add(std::move(report), std::move(all));
  }

  void tell_callbacks(CheckpointDurable const& durable) {
    auto const checkpoint = Checkpoint::from_directory(store_.path_of(durable.number));
    call([&](Callback& callback) { callback.on_checkpoint(checkpoint); });
  }

  void tell_callbacks(Progress const& progress) {
    call([&](Callback& callback) { callback.on_progress(progress); });
  }

  void tell_callbacks(Warning& warning) { warn(std::move(warning.text)); }

  void tell_callbacks(Failed const& failed) {
    call([&](Callback& callback) { callback.on_failure(failed); });
  }

  void announce(std::optional<Checkpoint> const& checkpoint) {
    RunInfo const info{plan_.directory.name(),
                       plan_.directory.path(),
                       plan_.backend,
                       launcher_.size(),
                       plan_.directory.attempt(),
                       checkpoint ? checkpoint->training_iteration() : 0,
                       checkpoint,
                       [this] { events_.push(RunEvent{StopRequest{++stops_of_callbacks_}}); }};
    call([&](Callback& callback) { callback.on_start(info); });
  }

  void warn(std::string text) {
    warnings_.push_back(text);
    // A callback that cannot take a warning is not warned of: that would not end.
    for (auto const& callback : plan_.callbacks) {
      try {
        callback->on_warning(text);
      } catch (...) {
        warnings_.push_back("a callback failed: " + current_exception_text());
      }
    }
  }

  template <class F>
  void call(F const& function) {
    for (auto const& callback : plan_.callbacks) {
      try {
        function(*callback);
      } catch (...) {
        auto text = "a callback failed: " + current_exception_text();
        if (callback->critical()) events_.push(RunEvent{DriverFailed{host_.hostname, text}});
        warn(std::move(text));
      }
    }
  }

  [[nodiscard]] static auto names_in(Metrics const& metrics) -> std::vector<std::string> {
    std::vector<std::string> names;
    for (auto const& entry : metrics) names.push_back(entry.name);
    return names;
  }

  [[nodiscard]] auto since_call() const -> double {
    return std::chrono::duration<double>{plan_.clock.now() - plan_.called}.count();
  }

  // Those that this start has not found damaged, which neither are offered nor take the place of one that is kept.
  [[nodiscard]] auto whole_checkpoints() const -> std::vector<CheckpointInfo> {
    auto infos = store_.list();
    std::erase_if(infos, [&](CheckpointInfo const& info) {
      return std::find(skipped_.begin(), skipped_.end(), info.path) != skipped_.end();
    });
    return infos;
  }

  // What went wrong, so that it does not hide why the run ended.
  [[nodiscard]] auto record_state(RunState state, std::string error) -> std::optional<std::string> {
    try {
      plan_.directory.set_state(std::string{to_string(state)}, std::move(error));
      return std::nullopt;
    } catch (std::exception const& problem) {
      return problem.what();
    }
  }

  auto conclude() -> Result {
    auto result = Result{};
    auto const stored_state = plan_.directory.previous_state();
    result.nothing_left =
        !reported_ && outcome_->state == RunState::finished && stored_state == to_string(RunState::finished);
    if (auto problem = record_state(outcome_->state, TrainingFailed::describe(outcome_->failures))) {
      outcome_->failures.emplace_back(Rank{0}, host_.hostname, std::move(*problem));
      outcome_->state = RunState::errored;
    }
    result.state = outcome_->state;
    result.path = plan_.directory.path();
    result.error = TrainingFailed::describe(outcome_->failures);
    result.metrics = history_.last_metrics();
    result.history = history_.take();
    for (auto const& info : whole_checkpoints()) result.checkpoints.push_back(Checkpoint::from_directory(info.path));
    timings_.total_s = since_call();
    result.timings = timings_;
    call([&](Callback& callback) { callback.on_finish(result); });
    result.warnings = std::move(warnings_);
    if (!outcome_->failures.empty()) throw TrainingFailed{std::move(outcome_->failures), std::move(result)};
    return result;
  }

  Launcher& launcher_;
  Plan plan_;
  Executor executor_;
  Channel<RunEvent> events_;
  DirectoryStore store_;
  Host host_;
  std::optional<BackgroundThread> writer_{std::in_place};
  std::optional<Controller> controller_;
  std::function<void()> launch_;
  Scope* scope_ = nullptr;
  std::uint64_t grace_ = 0;
  std::atomic<std::uint32_t> stops_of_callbacks_ = 0;
  std::map<Rank, Started> workers_;
  RunHistory history_;
  std::vector<std::filesystem::path> skipped_;
  std::vector<std::string> warnings_;
  Timings timings_;
  bool reported_ = false;
  std::optional<FinishRun> outcome_;
  std::exception_ptr launch_error_;
};

}  // namespace raytrain::detail
