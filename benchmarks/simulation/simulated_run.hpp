// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <queue>
#include <random>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/message/message.hpp>
#include <raytrain/train/controller.hpp>
#include <raytrain/train/controller_events.hpp>

#include "simulated_job.hpp"

namespace simulation {

/// Drives a real `Controller` by events at virtual times. The same job has the same outcome every time.
///
/// Errors: std::logic_error once the controller does what it must never do; std::invalid_argument for a job that
/// reports faster than its parts are staged, or never a checkpoint.
class SimulatedRun {
 public:
  explicit SimulatedRun(Job job)
      : job_{std::move(job)},
        random_{job_.seed},
        workers_(job_.workers.value),
        controller_{job_.workers, job_.policy, {}} {
    auto const parts_in_time = job_.stall + job_.stage + 2 * job_.message < cycle();
    if (job_.reports % job_.checkpoint_every == 0 && parts_in_time && job_.launch.count() > 0) return;
    throw std::invalid_argument{
        "a simulated job needs parts that are staged before the next checkpoint, whole cycles "
        "of checkpoints and a time to launch"};
  }

  auto run() -> Outcome {
    expect_failure();
    handle(raytrain::RunEvent{raytrain::RunBegins{}});
    while (!finished_) {
      check(!events_.empty(), "a run goes on until it ends");
      auto const event = events_.top();
      events_.pop();
      now_ = event.time;
      happen(event);
    }
    outcome_.elapsed = now_;
    outcome_.attempts = attempt_.value;
    return outcome_;
  }

 private:
  static constexpr auto never = Duration::max();

  enum class Kind : std::uint8_t {
    started,
    reported,
    staged,
    finished,
    stopped,
    failed,
    hung,
    waiting,  // of one worker
    round,
    committed,
    restart_due,
    grace_over,
    start_is_due,
    failure,
    old_failure,
  };

  struct Event {
    Duration time{};
    std::uint64_t number{};     // reports so far, or of the grace
    std::uint64_t ordinal = 0;  // of the checkpoint
    std::uint32_t rank = 0;
    Kind kind{};
    raytrain::Attempt attempt{};

    friend auto operator>(Event const& a, Event const& b) -> bool {
      return std::tie(a.time, a.kind, a.rank) > std::tie(b.time, b.kind, b.rank);
    }
  };

  struct Worker {
    Duration silent_from = never;  // it says nothing more of its own
    std::uint64_t reports = 0;     // that callbacks were told of
    bool struck = false;           // by a failure
    bool ended = true;
  };

  struct Commit {
    std::uint64_t reports = 0;
    std::vector<raytrain::CheckpointRef> parts;  // which the driver holds as long, too
  };

  static void check(bool holds, char const* what) {
    if (!holds) throw std::logic_error{std::string{"it does not hold that "} + what};
  }

  [[nodiscard]] auto cycle() const -> Duration {
    return job_.report_interval * static_cast<std::int64_t>(job_.checkpoint_every) + job_.stall;
  }

  // From 1 ns to `longest`: the same for the same event of the same seed, whatever else is simulated.
  [[nodiscard]] auto delay(Event const& event, Duration longest) const -> Duration {
    return Duration{1 + static_cast<std::int64_t>(mixed(event) % static_cast<std::uint64_t>(longest.count()))};
  }

  // Steele, Lea and Flood, Fast splittable pseudorandom number generators, 2014: SplitMix64.
  [[nodiscard]] auto mixed(Event const& event) const -> std::uint64_t {
    auto mix = job_.seed;
    for (auto const part :
         {event.attempt.value, event.number, std::uint64_t{event.rank}, static_cast<std::uint64_t>(event.kind)}) {
      mix += part + 0x9e3779b97f4a7c15U;
      mix = (mix ^ (mix >> 30U)) * 0xbf58476d1ce4e5b9U;
      mix = (mix ^ (mix >> 27U)) * 0x94d049bb133111ebU;
      mix ^= mix >> 31U;
    }
    return mix;
  }

  void expect_failure() {
    if (job_.between_failures == Duration{}) return;
    std::exponential_distribution<double> times{1 / static_cast<double>(job_.between_failures.count())};
    next_failure_ = now_ + Duration{1 + static_cast<std::int64_t>(times(random_))};
    events_.push({.time = next_failure_, .kind = Kind::failure});
  }

  void happen(Event const& event) {
    auto const of_this_attempt = event.attempt == attempt_;
    switch (event.kind) {
      case Kind::failure: return fail(event);
      case Kind::old_failure: return strike(event);
      case Kind::round: return of_this_attempt && now_ < broken_at_ ? report_all(event) : void();
      case Kind::committed: return keep(event);
      case Kind::restart_due: return handle(raytrain::RunEvent{raytrain::RestartDue{kept_reports()}});
      case Kind::grace_over:
        return event.number == grace_ ? handle(raytrain::RunEvent{raytrain::GraceOver{true}}) : void();
      case Kind::start_is_due:
        return handle(raytrain::RunEvent{raytrain::StartIsDue{
            event.attempt, std::chrono::duration_cast<std::chrono::milliseconds>(job_.start_timeout)}});
      default: return arrive(event);
    }
  }

  // What fails while no worker runs is found broken at the next launch.
  void fail(Event event) {
    event.rank = std::uniform_int_distribution<std::uint32_t>{0, job_.workers.value - 1}(random_);
    event.number = random_();
    expect_failure();
    ++outcome_.failures;
    if (running_ > 0) return strike(event);
    event.kind = Kind::old_failure;
    old_failures_.push_back(event);
  }

  void strike(Event const& event) {
    auto& worker = workers_[event.rank];
    if (worker.ended || worker.struck) return;
    worker.struck = true;
    worker.silent_from = std::min(worker.silent_from, now_);
    broken_at_ = std::min(broken_at_, now_);
    auto const draw = static_cast<double>(event.number % 1'000'000) / 1e6;
    Event told{.number = event.number, .rank = event.rank, .kind = Kind::failed, .attempt = attempt_};
    told.time = now_ + (is_exception(draw) ? delay(told, job_.message) : job_.notice);
    if (draw >= job_.hangs) return events_.push(told);
    if (now_ <= start_of(event.rank).time) return;  // the time to start ends sooner or later
    // The others wait for it, and nobody hears of it and of them in a fixed order.
    for (std::uint32_t rank = 0; rank < workers_.size(); ++rank) {
      told.rank = rank;
      told.kind = rank == event.rank ? Kind::hung : Kind::waiting;
      told.time = now_ + job_.policy.failure.hang_timeout + delay(told, job_.message);
      events_.push(told);
    }
  }

  [[nodiscard]] auto is_exception(double draw) const -> bool {
    return draw >= job_.hangs && draw < job_.hangs + job_.exceptions;
  }

  [[nodiscard]] auto start_of(std::uint32_t rank) const -> Event {
    Event start{.rank = rank, .kind = Kind::started, .attempt = attempt_};
    start.time = launched_at_ + job_.launch + delay(start, job_.message);
    return start;
  }

  // All workers have come to a report, and go on to the next one.
  void report_all(Event round) {
    auto const has_checkpoint = round.number % job_.checkpoint_every == 0;
    Event report = round;
    report.ordinal = has_checkpoint ? next_ordinal_++ : no_checkpoint;
    auto const stall = has_checkpoint ? job_.stall : Duration{};
    for (std::uint32_t rank = 0; rank < workers_.size(); ++rank) {
      report.rank = rank;
      report.kind = Kind::reported;
      report.time = now_ + delay(report, job_.message);
      events_.push(report);
      if (!has_checkpoint) continue;
      report.kind = Kind::staged;
      report.time = now_ + stall + job_.stage + job_.message + delay(report, job_.message);
      events_.push(report);
    }
    if (round.number == job_.reports) return finish_all(now_ + stall + job_.stage + 2 * job_.message);
    if (has_checkpoint && job_.skips_quiet_time) skip_quiet_time(round);
    ++round.number;
    round.time += stall + job_.report_interval;
    events_.push(round);
  }

  // Nothing is decided there, so that only the newest checkpoints before a failure and before the end matter.
  void skip_quiet_time(Event& round) {
    auto const margin = 2 + job_.commit / cycle();
    auto const until_end = static_cast<std::int64_t>((job_.reports - round.number) / job_.checkpoint_every);
    auto const quiet = std::min(until_end, (next_failure_ - now_) / cycle()) - margin;
    if (quiet <= 0 || ++full_cycles_ < 2) return;
    full_cycles_ = 0;
    outcome_.skipped_checkpoints += static_cast<std::uint64_t>(quiet);
    round.number += static_cast<std::uint64_t>(quiet) * job_.checkpoint_every;
    round.time += quiet * cycle();
  }

  void finish_all(Duration from) {
    for (std::uint32_t rank = 0; rank < workers_.size(); ++rank) {
      Event finished{.number = job_.reports, .rank = rank, .kind = Kind::finished, .attempt = attempt_};
      finished.time = from + delay(finished, job_.message);
      end_at(finished);
    }
  }

  void abort_all() {
    for (std::uint32_t rank = 0; rank < workers_.size(); ++rank) {
      Event stopped{.rank = rank, .kind = Kind::stopped, .attempt = attempt_};
      // Nobody can tell a worker that does not run yet.
      auto const told = std::max(now_ + delay(stopped, job_.message), start_of(rank).time);
      stopped.number = 1;
      stopped.time = told + delay(stopped, job_.unwind);
      end_at(stopped);
    }
  }

  void end_at(Event const& last) {
    auto& worker = workers_[last.rank];
    if (worker.silent_from != never) return;
    worker.silent_from = last.time;
    events_.push(last);
  }

  // A worker's message comes, perhaps long after the worker has ended.
  void arrive(Event event) {
    if (event.attempt != attempt_) {
      ++outcome_.messages;
      ++outcome_.refused_messages;
      auto const& actions = controller_.handle(raytrain::RunEvent{message_of(event)});
      check(actions.empty(), "what an earlier attempt says changes nothing");
      return;
    }
    auto& worker = workers_[event.rank];
    if (worker.ended || (now_ > worker.silent_from && event.kind != Kind::failed && event.kind != Kind::hung)) {
      if (static_cast<double>(mixed(event) % 1000) >= 1000 * job_.late) return;
      event.time += 2 * job_.launch;
      return events_.push(event);
    }
    ++outcome_.messages;
    if (event.kind == Kind::finished || event.kind == Kind::stopped || event.kind == Kind::failed) end(event.rank);
    if (event.kind == Kind::reported && event.ordinal != no_checkpoint) told_ordinals_ = event.ordinal + 1;
    handle(raytrain::RunEvent{message_of(event)});
  }

  void end(std::uint32_t rank) {
    check(!workers_[rank].ended, "a worker ends once");
    workers_[rank].ended = true;
    --running_;
  }

  // One may have returned while a commit was waited for.
  void leave_workers_behind(std::vector<raytrain::Rank> const& ranks) {
    for (auto const rank : ranks) {
      if (!workers_[rank.value].ended) end(rank.value);
    }
  }

  [[nodiscard]] auto message_of(Event const& event) const -> raytrain::WorkerMessage {
    auto const of_attempt = [&](auto message) {
      message.attempt = event.attempt;
      return raytrain::WorkerMessage{std::move(message)};
    };
    auto const rank = raytrain::Rank{event.rank};
    auto const host = [&] { return "node-" + std::to_string(event.rank / 8); };
    switch (event.kind) {
      case Kind::started: return of_attempt(raytrain::Started{rank, host(), 1000 + event.rank, "10.0.0.1"});
      case Kind::reported: {
        raytrain::Report report;
        report.rank = rank;
        report.training_iteration = event.number;
        if (event.ordinal != no_checkpoint) report.checkpoint = raytrain::CheckpointOrdinal{event.ordinal};
        report.metrics.set("loss", 1.5);
        return of_attempt(std::move(report));
      }
      case Kind::staged: {
        raytrain::CheckpointRef part;
        part.rank = rank;
        part.checkpoint = raytrain::CheckpointOrdinal{event.ordinal};
        part.files.push_back(
            {"rank_" + std::to_string(event.rank) + "/optimizer.pt", 297'000'000, std::string(32, 'a')});
        return of_attempt(std::move(part));
      }
      case Kind::failed: {
        auto const draw = static_cast<double>(event.number % 1'000'000) / 1e6;
        auto const code = is_exception(draw) ? raytrain::Errc::exception : raytrain::Errc::worker_failed;
        raytrain::Failed failed{raytrain::ErrorInfo{code, {}, "it has failed"}.with_origin(rank, host())};
        failed.process_is_spent = !is_exception(draw);
        return of_attempt(std::move(failed));
      }
      case Kind::hung:
      case Kind::waiting: {
        raytrain::Silent silent{rank, job_.policy.failure.hang_timeout};
        silent.waits = event.kind == Kind::waiting;
        return of_attempt(std::move(silent));
      }
      default: {
        raytrain::Finished finished{rank, event.kind == Kind::stopped};
        finished.operations = event.number;
        return of_attempt(std::move(finished));
      }
    }
  }

  void keep(Event const& event) {
    auto const committed = commits_.find(event.ordinal);
    check(committed->second.reports > kept_reports(), "a checkpoint holds more reports than the one before it");
    store_[++number_] = committed->second.reports;
    commits_.erase(committed);
    ++outcome_.checkpoints;
    handle(raytrain::RunEvent{raytrain::CheckpointDurable{{event.ordinal}, {number_}}});
    auto const most = job_.policy.checkpoint.num_to_keep;
    auto const expected = most ? std::min<std::uint64_t>(number_, static_cast<std::uint64_t>(*most)) : number_;
    check(store_.size() == expected && store_.rbegin()->first == number_,
          "the newest checkpoints are kept, and no others");
  }

  // Those before the newest checkpoint.
  [[nodiscard]] auto kept_reports() const -> std::uint64_t { return store_.empty() ? 0 : store_.rbegin()->second; }

  void handle(raytrain::RunEvent event) {
    for (auto& action : controller_.handle(std::move(event))) {
      check(!finished_, "nothing comes after the end");
      std::visit([this](auto& what) { this->carry_out(what); }, action);
    }
  }

  void carry_out(raytrain::LaunchWorkers const& launch) {
    check(launch.attempt == attempt_, "attempts are counted");
    check(launch.first_checkpoint.value == told_ordinals_, "checkpoints are counted through all attempts");
    next_ordinal_ = told_ordinals_;
    launched_at_ = now_;
    broken_at_ = never;
    full_cycles_ = 0;
    running_ = workers_.size();
    workers_.assign(workers_.size(), Worker{.reports = kept_reports(), .ended = false});
    for (std::uint32_t rank = 0; rank < workers_.size(); ++rank) events_.push(start_of(rank));
    events_.push({.time = now_ + job_.start_timeout, .kind = Kind::start_is_due, .attempt = attempt_});
    for (auto& failure : std::exchange(old_failures_, {})) {
      failure.time = now_ + job_.launch / 2;
      events_.push(failure);
    }
    auto const first_step = now_ + job_.launch + job_.message + job_.load;
    if (kept_reports() == job_.reports) return finish_all(first_step);
    events_.push({.time = first_step + job_.report_interval,
                  .number = kept_reports() + 1,
                  .kind = Kind::round,
                  .attempt = attempt_});
  }

  void carry_out(raytrain::RestartWorkers const& restart) {
    leave_workers_behind(restart.left_behind);
    check(running_ == 0, "workers are started again once all have ended");
    check(commits_.empty(), "workers are started again once every commit is done");
    check(!restart.failures.empty(), "workers are started again after a failure");
    check(restart.wait <= job_.policy.failure.max_backoff, "the wait has a limit");
    ++attempt_.value;
    ++grace_;
    events_.push({.time = now_ + restart.wait, .kind = Kind::restart_due});
  }

  void carry_out(raytrain::TellWorkers const& tell) {
    auto const is_of_return = std::holds_alternative<raytrain::RankReturned>(tell.message);
    (is_of_return ? outcome_.messages_of_returns : outcome_.messages_to_workers) += workers_.size();
    auto const* const stop = std::get_if<raytrain::Stop>(&tell.message);
    if (stop == nullptr) return;
    check(stop->abort && stop->attempt == attempt_, "nobody has asked for a stop");
    abort_all();
  }

  void carry_out(raytrain::ArmGrace const&) {
    events_.push({.time = now_ + job_.return_grace, .number = ++grace_, .kind = Kind::grace_over});
  }

  void carry_out(raytrain::CommitCheckpoint& commit) {
    auto const& parts = commit.refs;
    check(parts.size() == workers_.size(), "a checkpoint has every rank's part");
    for (std::uint32_t rank = 0; rank < parts.size(); ++rank) {
      check(parts[rank].rank.value == rank && parts[rank].checkpoint == commit.checkpoint &&
                commit.training_iterations[rank] == commit.rank_0_report.training_iteration,
            "a checkpoint has each rank's own part, of one report");
      check(workers_[rank].reports >= commit.training_iterations[rank], "a report is told before its checkpoint");
    }
    auto const [found, is_new] = commits_.try_emplace(commit.checkpoint.value);
    check(is_new, "a checkpoint is committed once");
    found->second = {commit.rank_0_report.training_iteration, std::move(commit.refs)};
    events_.push({.time = now_ + job_.commit, .ordinal = commit.checkpoint.value, .kind = Kind::committed});
  }

  void carry_out(raytrain::DiscardCheckpoint const&) {}

  void carry_out(raytrain::DeleteCheckpoint const& action) {
    check(store_.erase(action.number.value) == 1, "a checkpoint is deleted once");
  }

  void carry_out(raytrain::RecordMessage const& record) {
    if (auto const* const warning = std::get_if<raytrain::Warning>(&record.what)) outcome_.reason = warning->text;
    auto const* const report = std::get_if<raytrain::Report>(&record.what);
    if (report == nullptr) return;
    auto& told = workers_[report->rank.value].reports;
    auto const follows = report->training_iteration == told + 1;
    check(follows || (job_.skips_quiet_time && report->training_iteration > told),
          "each report is told once, in order");
    told = report->training_iteration;
  }

  void carry_out(raytrain::FinishRun const& finish) {
    leave_workers_behind(finish.left_behind);
    check(running_ == 0 && commits_.empty(), "a run ends after its workers and its commits");
    outcome_.state = finish.state;
    outcome_.kept_reports = kept_reports();
    finished_ = true;
  }

  static constexpr auto no_checkpoint = ~std::uint64_t{0};

  Job job_;
  std::mt19937_64 random_;  // for failures alone, so that what is simulated between them does not change them
  std::vector<Worker> workers_;
  raytrain::Controller controller_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::vector<Event> old_failures_;
  std::map<std::uint64_t, Commit> commits_;       // under way, by ordinal
  std::map<std::uint64_t, std::uint64_t> store_;  // reports before each checkpoint, by its number
  Outcome outcome_;
  raytrain::Attempt attempt_;
  Duration now_{};
  Duration next_failure_ = never;
  Duration launched_at_{};
  Duration broken_at_ = never;  // nobody comes to a report after it
  std::size_t running_ = 0;     // workers
  std::uint64_t number_ = 0;    // of the newest checkpoint
  std::uint64_t grace_ = 0;
  std::uint64_t next_ordinal_ = 0;
  std::uint64_t told_ordinals_ = 0;  // that the controller has heard of
  std::int64_t full_cycles_ = 0;     // simulated since some were skipped
  bool finished_ = false;
};

}  // namespace simulation
