// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <future>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/checkpoint/checkpoint_store.hpp>
#include <raytrain/checkpoint/retention.hpp>
#include <raytrain/checkpoint/run_directory.hpp>
#include <raytrain/collective/wait_limits.hpp>
#include <raytrain/config/run_config.hpp>
#include <raytrain/core/clock.hpp>
#include <raytrain/core/current_error.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/metrics.hpp>
#include <raytrain/exec/background_thread.hpp>
#include <raytrain/exec/channel.hpp>
#include <raytrain/exec/executor.hpp>
#include <raytrain/exec/signal_thread.hpp>
#include <raytrain/launch/host.hpp>
#include <raytrain/launch/launcher.hpp>
#include <raytrain/message/json.hpp>
#include <raytrain/message/message.hpp>
#include <raytrain/message/report_line.hpp>
#include <raytrain/train/append_file.hpp>
#include <raytrain/train/callback.hpp>
#include <raytrain/train/controller.hpp>
#include <raytrain/train/detail/prepared_datasets.hpp>
#include <raytrain/train/detail/run_driver.hpp>
#include <raytrain/train/detail/run_identity.hpp>
#include <raytrain/train/detail/stop_signals.hpp>
#include <raytrain/train/detail/worker_runner.hpp>
#include <raytrain/train/result.hpp>
#include <raytrain/train/run_history.hpp>
#include <raytrain/train/worker_setup.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE auto RunDriver::run() -> Result {
  std::optional<StopSignals> signals;  // until callbacks have seen the end
  if (plan_.fit.run.handle_signals) {
    signals.emplace("training '" + plan_.directory.name() + "'", [this](std::uint32_t times) {
      if (!events_.push(RunEvent{WorkerMessage{StopRequest{Rank{0}, times}}})) stop_came_late_ = true;
    });
  }
  std::optional<SignalThread> resize_signals;
  auto const range = launcher_.range();
  if (range.is_elastic() && plan_.fit.run.handle_signals) {
    resize_signals.emplace(free_user_signals(), [this](int signal) {
      events_.push(RunEvent{ResizeAsked{signal == SIGUSR1 ? 1 : -1, true}});
    });
  }
  ResizeRequests::Taker const resize_taker{plan_.fit.resize_requests, range, [this](std::int64_t workers) {
                                             // Of many requests that nobody has handled yet the last one counts.
                                             if (workers_asked_.exchange(workers) != 0) return;
                                             events_.push(RunEvent{ResizeAsked{0, false}});
                                           }};
  if (range.is_elastic() && launcher_.watches_room()) room_watch_.emplace();
  resume_point_.find();
  auto const& checkpoint = resume_point_.own();
  auto reasons = resume_point_.take_warnings();
  if (!checkpoint) plan_.directory.check_none_lost();
  history_ = RunHistory::read(plan_.directory.progress_path());
  if (auto const missing = history_.missing_until(checkpoint); !missing.empty()) {
    reasons.push_back("Result::history is incomplete: in " + plan_.directory.progress_path().string() + " " + missing +
                      "; it was removed or changed");
  }
  controller_.emplace(launcher_.size(),
                      RunPolicy{.checkpoint = plan_.fit.run.checkpoint,
                                .failure = plan_.fit.run.failure,
                                // Runs of one seed that fail together do not come back together.
                                .wait_seed = plan_.fit.run.seed ^ std::hash<std::string>{}(plan_.directory.run_id()),
                                .replaces_processes = launcher_.replaces_processes(),
                                .workers = range,
                                .room = launcher_.room().workers},
                      scored(resume_point_.whole_checkpoints(), plan_.fit.run.checkpoint));
  store_.sweep();
  // A start that was refused before this has changed nothing of the run.
  plan_.directory.record_start();
  if (checkpoint) plan_.directory.record_checkpoint();
  try {
    log_ = AppendFile{plan_.directory.progress_path()};
  } catch (std::exception const&) {
    record_failure(current_error());
  }
  announce();
  if (plan_.directory.previous_state() == to_string(RunState::running)) {
    callbacks_.warn(
        "the start before this one did not come to its end: its process was killed, crashed or exited, or could not "
        "write "
        "run.json");
  }
  if (plan_.directory.completes_deletion() && plan_.fit.run.resume != Resume::fresh) {
    callbacks_.warn(
        "an earlier start was to delete this run (Resume::fresh) and did not come to the end of it: this one has, and "
        "begins anew");
  }
  for (auto& text : reasons) callbacks_.warn(std::move(text));
  if (checkpoint) {
    for (auto& text : changes_since(*checkpoint, plan_.fit.run.seed, plan_.fit.datasets))
      callbacks_.warn(std::move(text));
  }
  // Behind what callbacks had to say: a refusal comes before any worker.
  events_.push(RunEvent{RunBegins{resume_point_.training_iteration()}});

  executor_.run(drive());
  if (launch_error_) {
    try {
      std::rethrow_exception(launch_error_);
    } catch (...) {
      outcome_ = FinishRun{RunState::errored, {current_error().with_origin({}, host_.hostname)}};
    }
  }
  record_state();  // before what may take long: whoever ends this process meanwhile finds the record true
  end_workers();
  room_watch_.reset();  // it uses the launcher, which may be gone before this object
  executor_.run(take_late_events());
  if (launch_error_) std::rethrow_exception(launch_error_);
  return conclude(signals);
}

RAYTRAIN_INLINE void RunDriver::end_workers() {
  if (outcome_->left_behind.empty()) {
    launcher_.join();
    store_thread_.reset();
    return;
  }
  std::string ranks;
  for (auto const rank : outcome_->left_behind) {
    ranks += (ranks.empty() ? "rank " : ", rank ") + std::to_string(rank.value);
  }
  auto const& failures = outcome_->failures;
  launcher_.leave_workers_behind(
      outcome_->left_behind,
      "raytrain: training '" + plan_.directory.name() + "' ends without " + ranks + ", which did not return: " +
          (failures.empty() ? "a stop was requested" : TrainingFailed::describe(failures)) +
          "; this process ends with exit status 75, start it again to go on from the last checkpoint\n");
  if (!launcher_.replaces_processes()) return;
  launcher_.join();
  store_thread_.reset();
}

RAYTRAIN_INLINE auto RunDriver::try_send(WorkerMessage& message) -> bool {
  RunEvent event{std::move(message)};
  auto const sent = events_.try_send(event);
  if (!sent) message = std::move(std::get<WorkerMessage>(event));
  return sent;
}

RAYTRAIN_INLINE auto RunDriver::wait_limits() -> WaitLimits {
  return {.timeout = plan_.fit.run.collective_timeout,
          .on_warning = [this](std::string const& text) { send(Warning{text}); }};
}

RAYTRAIN_INLINE auto RunDriver::duration_of(ArmGrace::Grace grace) const -> std::chrono::milliseconds {
  switch (grace) {
    case ArmGrace::Grace::to_report: return plan_.fit.run.stop_grace;
    case ArmGrace::Grace::to_return: return plan_.fit.run.return_grace();
    case ArmGrace::Grace::of_stop: return StopCounter::echo;
    case ArmGrace::Grace::at_once: break;
  }
  return at_once;
}

RAYTRAIN_INLINE void RunDriver::perform(std::vector<RunAction>& actions) {
  for (auto& action : actions) {
    try {
      std::visit([this](auto& what) { this->carry_out(what); }, action);
    } catch (...) {
      record_failure(current_error());
    }
  }
}

RAYTRAIN_INLINE void RunDriver::report_own_failures() {
  while (!outcome_ && !failures_.empty()) {
    Failed failed{std::move(failures_.front())};
    failures_.pop_front();
    perform(controller_->handle(RunEvent{WorkerMessage{std::move(failed)}}));
  }
}

RAYTRAIN_INLINE void RunDriver::record_failure(ErrorInfo error) {
  if (!failure_texts_.insert(error.text()).second) return;
  failures_.push_back(std::move(error).with_origin({}, host_.hostname));
}

RAYTRAIN_INLINE void RunDriver::carry_out(LaunchWorkers const& action) {
  auto const first = action.attempt == Attempt{};
  try {
    auto const is_resized = action.world_size != launcher_.size();
    if (is_resized) launcher_.resize(action.world_size);
    if (!first) tell_of_restart();
    if (!first || is_resized) plan_.restart_backend();
    launch(action);
  } catch (...) {
    // No worker runs, so there is nothing to wait for.
    if (first) {
      launch_error_ = std::current_exception();
    } else {
      events_.push(RunEvent{LaunchFailed{current_error().with_origin({}, host_.hostname)}});
    }
  }
}

RAYTRAIN_INLINE void RunDriver::launch(LaunchWorkers const& action) {
  plan_.directory.record_damaged_checkpoints(resume_point_.skipped());
  auto checkpoint = resume_point_.checkpoint();
  if (resume_point_.own()) checkpoint = checkpoint->with_copies(copies_);
  if (copies_) copies_->drop_uncommitted();
  auto begin = plan_.directory.begin_message(resume_point_.own());
  begin.attempt = action.attempt;
  begin.report_fields = known_report_fields(action.attempt);
  begin.first_checkpoint = action.first_checkpoint;
  begin.world_size = action.world_size;
  begin.between_failures_s = between_failures_s();
  auto const shared = shared_by_workers(plan_.fit, begin,
                                        {.range = launcher_.range(),
                                         .checkpoint = std::move(checkpoint),
                                         .store = store_,
                                         .store_thread = *store_thread_,
                                         .hang_watch = hang_watch_,
                                         .copies = copies_,
                                         .has_first_rank = true});
  auto const iteration = resume_point_.training_iteration();
  if (attempts_.size() == Result::max_attempts) attempts_.erase(attempts_.begin());
  attempts_.push_back({.attempt = action.attempt,
                       .world_size = action.world_size,
                       .first_iteration = iteration,
                       .last_iteration = iteration});
  auto const now = plan_.fit.clock.now();
  attempt_ = {.launched = now, .saved = now};
  watch(action.attempt);
  auto const main = [shared, training = plan_.fit.training](Worker worker) {
    run_worker(std::move(worker), shared, training);
  };
  launcher_.launch({.main = main, .queue = *this, .limits = wait_limits(), .begin = std::move(begin)});
}

RAYTRAIN_INLINE void RunDriver::carry_out(RestartWorkers& restart) {
  ++armed_graces_;
  if (!restart.left_behind.empty()) launcher_.leave_workers_behind(restart.left_behind, {});
  if (!restart.failures.empty()) ++failed_attempts_;
  attempts_.back().failures = std::move(restart.failures);
  attempts_.back().preemptions = std::move(restart.preemptions);
  attempts_.back().total_s = seconds_since(attempt_.launched);
  waiting_->spawn(wait_backoff(std::move(restart)));
}

RAYTRAIN_INLINE void RunDriver::look_for_room() {
  try {
    auto const room = launcher_.look_for_room();
    // Seen twice, since a file may have been half written.
    if (std::exchange(room_seen_, room) == room) events_.push(RunEvent{RoomChanged{room.workers, room.moves}});
  } catch (...) {
    push(Warning{"looking for hosts: " + current_error().text()});
  }
  looks_for_room_ = false;
}

RAYTRAIN_INLINE void RunDriver::tell_of_restart() {
  for (auto& text : resume_point_.take_warnings()) callbacks_.warn(std::move(text));
  auto& before = attempts_.back();
  auto const iteration = resume_point_.training_iteration();
  before.lost_reports = before.last_iteration - std::min(before.last_iteration, iteration);
  before.lost_s = seconds_since(attempt_.saved);
  before.next_world_size = launcher_.size();
  before.lost_hosts = std::exchange(lost_hosts_, {});
  auto const has_failed = !before.failures.empty();
  auto const& reasons = has_failed ? before.failures : before.preemptions;
  auto const* const kind = has_failed ? "failed_attempt" : reasons.empty() ? "resized_attempt" : "preempted_attempt";
  Metrics line;
  line.set(kind, static_cast<std::int64_t>(before.attempt.value));
  if (!reasons.empty()) line.set(has_failed ? "error" : "preempted", TrainingFailed::describe(reasons));
  line.set("world_size", static_cast<std::int64_t>(launcher_.size().value));
  line.set("training_iteration", static_cast<std::int64_t>(iteration));
  line.set("lost_reports", static_cast<std::int64_t>(before.lost_reports));
  line.set("lost_s", before.lost_s);
  if (!before.lost_hosts.empty()) line.set("lost_hosts", fmt::format("{}", fmt::join(before.lost_hosts, ", ")));
  line.set("timestamp", std::chrono::duration<double>{plan_.fit.clock.wall_now().time_since_epoch()}.count());
  log(line);
  callbacks_.call("on_restart", [&](Callback& callback) { callback.on_restart(before, resume_point_.own()); });
}

RAYTRAIN_INLINE void RunDriver::carry_out(RecordMessage& record) {
  std::visit([this](auto& what) { this->record(what); }, record.what);
}

RAYTRAIN_INLINE void RunDriver::record(Started& started) {
  attempt_.workers[started.rank] = started;
  callbacks_.call("on_worker_start", [&](Callback& callback) { callback.on_worker_start(started); });
  if (attempt_.workers.size() < launcher_.size().value) return;
  // Those that began before waited for the last one, whose process may have been started later.
  attempt_.all_began = plan_.fit.clock.now();
  if (attempts_.back().attempt == Attempt{}) timings_.to_workers_s = since_call();
  std::vector<std::string> hosts;
  for (auto const& [rank, worker] : attempt_.workers) {
    if (std::ranges::find(hosts, worker.hostname) == hosts.end()) hosts.push_back(worker.hostname);
  }
  plan_.directory.record_workers(launcher_.size(), std::move(hosts));
}

RAYTRAIN_INLINE void RunDriver::record(Report& report) {
  if (!reported_) {
    reported_ = true;
    timings_.to_first_report_s = since_call();
  }
  if (report.rank == Rank{0} && plan_.directory.report_fields().empty()) {
    plan_.directory.record_report_fields(names_in(report.metrics));
  }
  auto all = all_metrics(report, attempt_.workers.at(report.rank));
  log(all);
  if (report.rank == Rank{0}) {
    attempts_.back().last_iteration = report.training_iteration;
    if (report.replaces) attempt_.reported_checkpoints.erase(*report.replaces);
    if (report.checkpoint) attempt_.reported_checkpoints[*report.checkpoint] = plan_.fit.clock.now();
  }
  callbacks_.call("on_report", [&](Callback& callback) { callback.on_report(report, all); });
  history_.add(std::move(report), std::move(all));
}

RAYTRAIN_INLINE void RunDriver::record(Progress const& progress) {
  if (progress.rank != Rank{0}) return;
  callbacks_.call("on_progress", [&](Callback& callback) { callback.on_progress(progress); });
}

RAYTRAIN_INLINE void RunDriver::log(Metrics const& all) {
  try {
    log_.write_line(to_json(all));
  } catch (std::exception const&) {
    record_failure(current_error());
  }
}

RAYTRAIN_INLINE void RunDriver::announce() {
  RunInfo const info{
      .name = plan_.directory.name(),
      .path = plan_.directory.path(),
      .backend = std::string{plan_.fit.backend},
      .world_size = launcher_.size(),
      .metadata = plan_.fit.run.metadata,
      .start = plan_.directory.start().number,
      .training_iteration = resume_point_.training_iteration(),
      .resumed_from = resume_point_.own(),
      .begins_from = resume_point_.other(),
      .request_stop = [this] { events_.push(RunEvent{CallbackStop{false}}); },
      .finish_early = [this] { events_.push(RunEvent{CallbackStop{true}}); },
      .resize = [&requests = plan_.fit.resize_requests](std::int64_t workers) { requests.ask(workers); }};
  callbacks_.call("on_start", [&](Callback& callback) { callback.on_start(info); });
}

RAYTRAIN_INLINE auto RunDriver::names_in(Metrics const& metrics) -> std::vector<std::string> {
  std::vector<std::string> names;
  for (auto const& entry : metrics) names.push_back(entry.name);
  return names;
}

RAYTRAIN_INLINE auto RunDriver::seconds_since(Clock::TimePoint time) const -> double {
  return std::chrono::duration<double>{plan_.fit.clock.now() - time}.count();
}

RAYTRAIN_INLINE auto RunDriver::between_failures_s() const -> double {
  return failed_attempts_ == 0 ? 0 : since_call() / static_cast<double>(failed_attempts_);
}

RAYTRAIN_INLINE void RunDriver::record_state() {
  take_late_failures();
  collecting_failures([this] {
    plan_.directory.set_state(std::string{to_string(outcome_->state)}, TrainingFailed::describe(outcome_->failures));
  });
}

RAYTRAIN_INLINE void RunDriver::take_late_failures() {
  while (!failures_.empty()) {
    auto error = std::move(failures_.front());
    failures_.pop_front();
    callbacks_.tell(error);
    outcome_->failures.push_back(std::move(error));
    outcome_->state = RunState::errored;
  }
}

RAYTRAIN_INLINE auto RunDriver::whole_checkpoints() -> std::vector<Checkpoint> {
  if (!store_thread_) return resume_point_.whole_checkpoints();
  // Beside workers that did not return it may still delete some.
  auto const list = std::make_shared<std::packaged_task<std::vector<Checkpoint>()>>(
      [this] { return resume_point_.whole_checkpoints(); });
  auto listed = list->get_future();
  store_thread_->post([list] { (*list)(); });
  constexpr std::chrono::seconds longest{10};  // a store that hangs must not keep fit() from its end
  return listed.wait_for(longest) == std::future_status::ready ? listed.get() : resume_point_.whole_checkpoints();
}

RAYTRAIN_INLINE auto RunDriver::conclude(std::optional<StopSignals>& signals) -> Result {
  auto result = Result{};
  auto const recorded = outcome_->failures.size();
  collecting_failures([&] {
    plan_.directory.check_in_place();  // whose checkpoints they are otherwise, nobody knows
    result.checkpoints = whole_checkpoints();
  });
  auto const finished_before = plan_.directory.previous_state() == to_string(RunState::finished);
  result.nothing_left = !reported_ && finished_before && outcome_->state == RunState::finished;
  result.world_size = launcher_.size();
  result.path = plan_.directory.path();
  result.metadata = plan_.fit.run.metadata;
  history_.move_to(result);
  if (!attempts_.empty() && attempts_.back().failures.empty()) {
    attempts_.back().failures = outcome_->failures;
    attempts_.back().total_s = seconds_since(attempt_.launched);
  }
  if (!outcome_->preemptions.empty()) attempts_.back().preemptions = std::move(outcome_->preemptions);
  result.attempts = std::move(attempts_);
  timings_.total_s = since_call();
  result.timings = timings_;
  collecting_failures([&] { log_.finish(); });
  set_outcome_in(result);
  result.warnings = callbacks_.warnings();
  collecting_failures([&] { callbacks_.call("on_finish", [&](Callback& callback) { callback.on_finish(result); }); });
  if (outcome_->failures.size() > recorded) record_state();
  set_outcome_in(result);
  signals.reset();
  result.warnings = callbacks_.warnings();
  if (stop_came_late_) {
    result.warnings.emplace_back(
        "a stop was requested when every worker had returned: this run has ended as if "
        "nobody had asked, and a program that goes on should end");
  }
  if (!outcome_->failures.empty()) throw TrainingFailed{std::move(outcome_->failures), std::move(result)};
  return result;
}

RAYTRAIN_INLINE void RunDriver::set_outcome_in(Result& result) const {
  result.state = outcome_->state;
  result.error = TrainingFailed::describe(outcome_->failures);
}

}  // namespace raytrain::detail
