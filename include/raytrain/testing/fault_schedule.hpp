// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

#include <raytrain/config/scaling_config.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/train/train_context.hpp>

namespace raytrain::testing {

/// What may happen to a worker.
enum class Fault : std::uint8_t {
  exception,
  bad_alloc,              ///< As where memory is short.
  mismatched_collective,  ///< It calls a collective that the others do not call.
  slow,                   ///< Its steps take twice as long from then on, which ends nothing.
  very_slow,              ///< Ten times as long.
  nan_loss,               ///< It reports a loss that is no number, which ends nothing.
  kill,                   ///< SIGKILL.
  segmentation_fault,     ///< SIGSEGV.
  abort,                  ///< SIGABRT.
  stop,                   ///< SIGSTOP: the process stands still.
  exit,                   ///< The process exits with status 0, in the middle of the training.
  endless_loop,           ///< It computes for ever: `FailureConfig::hang_timeout` finds it.
  preempt,                ///< SIGTERM, as where its process will be taken away.
};

/// Where in a training it happens. The training function says when it is there, by `FaultyWorker::at`.
enum class Moment : std::uint8_t {
  launch,    ///< At its beginning.
  load,      ///< Before it goes on from a checkpoint.
  step,      ///< In each step.
  report,    ///< Before each report.
  save,      ///< While its state is being put into a checkpoint.
  commit,    ///< After each report with a checkpoint, which is being written and committed then.
  shutdown,  ///< After the last report.
};

[[nodiscard]] constexpr auto to_string(Fault fault) -> std::string_view {
  constexpr std::array<std::string_view, 13> names{"exception",
                                                   "bad_alloc",
                                                   "mismatched_collective",
                                                   "slow",
                                                   "very_slow",
                                                   "nan_loss",
                                                   "kill",
                                                   "segmentation_fault",
                                                   "abort",
                                                   "stop",
                                                   "exit",
                                                   "endless_loop",
                                                   "preempt"};
  return names.at(static_cast<std::size_t>(fault));
}

[[nodiscard]] constexpr auto to_string(Moment moment) -> std::string_view {
  constexpr std::array<std::string_view, 7> names{"launch", "load", "step", "report", "save", "commit", "shutdown"};
  return names.at(static_cast<std::size_t>(moment));
}

/// The faults after which `fit()` can start workers again, in the order of `Fault`. Threads and the ranks of a job that
/// the program did not start survive what leaves their processes alive; `automatic` counts as they do.
[[nodiscard]] inline auto faults_survived_by(Launch launch) -> std::vector<Fault> {
  auto const last = launch == Launch::processes || launch == Launch::mpirun ? Fault::preempt : Fault::nan_loss;
  std::vector<Fault> faults;
  for (auto i = 0; i <= static_cast<int>(last); ++i) faults.push_back(static_cast<Fault>(i));
  return faults;
}

/// Which faults a `FaultSchedule` takes, and how many.
struct FaultPlan {
  Launch launch = Launch::automatic;  ///< Where the workers run: it decides what they survive.
  /// The first so many attempts have a fault each, if they come so far: some faults end nothing. Not negative, and
  /// `FailureConfig::max_failures` no less.
  int failures = 3;
  /// Empty: all that `launch` survives, with `endless_loop`, for which `FailureConfig::hang_timeout` must be set.
  std::vector<Fault> faults{};
  std::vector<Moment> moments{};  ///< Those at which the training function calls `at`; empty: all.
  /// A fault that comes in a step or with a report comes the n-th time that its worker is there in its attempt, n being
  /// at most this. At least 1; no more than a run has steps, or the fault may never come.
  int latest = 10;
};

/// A fault of one attempt.
struct PlannedFault {
  Fault fault{};
  Moment moment{};
  int time = 1;   ///< It comes when its worker is there for so many times.
  Rank worker{};  ///< To whom it happens.

  /// "kill of rank 1 at step 3"
  [[nodiscard]] auto describe() const -> std::string {
    return std::string{to_string(fault)} + " of rank " + std::to_string(worker.value) + " at " +
           std::string{to_string(moment)} + ' ' + std::to_string(time);
  }
};

/// Which worker fails in which attempt, how and when: a pure function of the seed, so that all workers agree, and a
/// seed repeats a run. See `FaultyWorker`.
class FaultSchedule {
 public:
  /// Errors: `invalid_config` for a fault that the launch cannot survive, and for numbers out of range.
  FaultSchedule(std::uint64_t seed, FaultPlan plan) : seed_{seed}, plan_{std::move(plan)} {
    auto const survived = faults_survived_by(plan_.launch);
    if (plan_.faults.empty()) plan_.faults = survived;
    if (plan_.moments.empty()) {
      for (auto i = 0; i <= static_cast<int>(Moment::shutdown); ++i) plan_.moments.push_back(static_cast<Moment>(i));
    }
    for (auto const fault : plan_.faults) {
      if (std::ranges::find(survived, fault) != survived.end()) continue;
      throw Error{
          Errc::invalid_config, "FaultPlan::faults",
          "a run on threads, or in a job that others started, does not survive " + std::string{to_string(fault)},
          "write {.launch = Launch::processes} or Launch::mpirun, as in ScalingConfig, or leave it out"};
    }
    check("FaultPlan::failures", plan_.failures, 0);
    check("FaultPlan::latest", plan_.latest, 1);
  }

  /// The fault of an attempt of so many workers, the same wherever it is asked for.
  [[nodiscard]] auto planned(Attempt attempt, WorldSize workers) const -> std::optional<PlannedFault> {
    if (attempt.value > static_cast<std::uint64_t>(plan_.failures) || workers.value == 0) return std::nullopt;
    std::seed_seq parts{seed_ >> 32U, seed_ & 0xffffffffU, attempt.value};
    std::mt19937 random{parts};
    PlannedFault fault;
    fault.fault = plan_.faults[random() % plan_.faults.size()];
    fault.moment = fault.fault == Fault::nan_loss ? Moment::report : plan_.moments[random() % plan_.moments.size()];
    auto const is_repeated =
        fault.moment != Moment::launch && fault.moment != Moment::load && fault.moment != Moment::shutdown;
    fault.time = is_repeated ? 1 + static_cast<int>(random() % static_cast<unsigned>(plan_.latest)) : 1;
    fault.worker.value = random() % workers.value;
    return fault;
  }

 private:
  static void check(char const* field, int value, int least) {
    if (value >= least) return;
    throw Error{Errc::invalid_config, field,
                "must be at least " + std::to_string(least) + " (got " + std::to_string(value) + ")",
                "write how many attempts fail, and after how many steps at most"};
  }

  std::uint64_t seed_;
  FaultPlan plan_;
};

/// Lets happen to one worker what a schedule has planned for it:
///   testing::FaultyWorker faults{schedule, ctx};       // first in the training function
///   faults.at(testing::Moment::step);                  // in each step, and so on
///   ctx.report(Epoch{epoch, faults.loss(loss)}, ...);  // a report with a loss
///
/// Threads: the worker's own only.
class FaultyWorker {
 public:
  FaultyWorker(FaultSchedule const& schedule, TrainContext& ctx)
      : ctx_{ctx}, planned_{schedule.planned(ctx.attempt(), ctx.world_size())} {
    if (planned_ && planned_->worker != ctx.world_rank()) planned_.reset();
  }

  /// Here the training is at `moment`. Does what is planned for this time.
  ///
  /// Errors: those that are planned, and what a mismatched collective throws.
  void at(Moment moment) {
    if (!planned_) return;
    if (moment == Moment::step) slow_down();
    if (moment == planned_->moment && ++times_ == planned_->time) happen();
  }

  /// Is at `Moment::report`; the loss to report, which is no number where that is planned.
  [[nodiscard]] auto loss(double value) -> double {
    at(Moment::report);
    return std::exchange(loss_is_nan_, false) ? std::numeric_limits<double>::quiet_NaN() : value;
  }

 private:
  using Time = std::chrono::steady_clock;

  void happen() {
    switch (planned_->fault) {
      case Fault::exception: throw std::runtime_error{"planned: " + planned_->describe()};
      case Fault::bad_alloc: throw std::bad_alloc{};
      case Fault::mismatched_collective: call_what_nobody_calls(); return;
      case Fault::slow: slowness_ = 2; return;
      case Fault::very_slow: slowness_ = 10; return;
      case Fault::nan_loss: loss_is_nan_ = true; return;
      case Fault::kill: raise_for_sure(SIGKILL);
      case Fault::segmentation_fault: raise_for_sure(SIGSEGV);
      case Fault::abort: raise_for_sure(SIGABRT);
      case Fault::stop: raise_for_sure(SIGSTOP);
      case Fault::exit: ::_exit(0);
      case Fault::endless_loop: compute_for_ever();
      case Fault::preempt: ::kill(::getpid(), SIGTERM); return;
    }
  }

  // With the default action, whatever the program has made of it.
  [[noreturn]] static void raise_for_sure(int signal) {
    std::signal(signal, SIG_DFL);
    ::kill(::getpid(), signal);
    compute_for_ever();  // until it is there
  }

  [[noreturn]] static void compute_for_ever() {
    volatile std::uint64_t steps = 0;
    while (true) steps = steps + 1;
  }

  void call_what_nobody_calls() {
    std::array<std::int8_t, 113> values{};
    ctx_.max(values);
  }

  void slow_down() {
    if (slowness_ > 1 && step_began_ != Time::time_point{}) {
      auto const end = Time::now() + (slowness_ - 1) * (Time::now() - step_began_);
      while (Time::now() < end) std::this_thread::yield();
    }
    step_began_ = Time::now();
  }

  TrainContext& ctx_;
  std::optional<PlannedFault> planned_;
  int times_ = 0;
  int slowness_ = 1;
  bool loss_is_nan_ = false;
  Time::time_point step_began_{};
};

}  // namespace raytrain::testing
