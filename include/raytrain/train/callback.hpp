// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/metrics.hpp>
#include <raytrain/message/message.hpp>
#include <raytrain/train/result.hpp>

namespace raytrain {

/// What callbacks are told of a run before its workers start.
struct RunInfo {
  std::string name;
  std::filesystem::path path;
  std::string backend;
  WorldSize world_size{};
  std::map<std::string, std::string> metadata;  ///< `RunConfig::metadata`.
  std::uint64_t start{};                   ///< Number of this start in the folder, from 1; `Resume::fresh` counts on.
  std::uint64_t training_iteration{};      ///< Rank 0's reports before this start.
  std::optional<Checkpoint> resumed_from;  ///< None at the beginning.
  std::optional<Checkpoint> begins_from;   ///< Another run's, at the beginning: `RunConfig::resume_from_checkpoint`.
  /// Ends the run as a first signal would, `aborted`, so that the next start goes on. From any thread, until
  /// `on_finish`, and as often as you like.
  std::function<void()> request_stop;
  /// Ends the run as `finished`, early stopping for instance: workers end at their next report, however long that
  /// takes. Called as `request_stop`.
  std::function<void()> finish_early;
  /// As `Trainer::resize`; good for as long as the trainer.
  std::function<void(std::int64_t workers)> resize;
};

/// Watches a run. Every function does nothing unless it is overridden.
///
/// A function that throws is reported to all callbacks as a warning, and training goes on, unless `critical` says
/// otherwise.
/// Threads: all on the thread that called `fit()`, one at a time; a slow one delays what comes after it, and
///          training once 1024 messages wait for it.
class Callback {
 public:
  Callback() = default;
  Callback(Callback const&) = delete;
  auto operator=(Callback const&) -> Callback& = delete;
  virtual ~Callback() = default;

  /// The workers are about to be launched.
  virtual void on_start(RunInfo const&) {}
  /// A worker has started: where, as which process, and in which attempt. Called once for each worker of each attempt,
  /// before its reports; not for a worker that could not start.
  virtual void on_worker_start(Started const&) {}
  /// Each report of each rank. `all`: its metrics and the automatic ones (`automatic_metric_names`).
  virtual void on_report(Report const&, Metrics const& /*all*/) {}
  /// How far rank 0 is between two reports; at most one in 100 ms.
  virtual void on_progress(Progress const&) {}
  /// A checkpoint is committed: it survives whatever happens afterwards.
  virtual void on_checkpoint(Checkpoint const&) {}
  /// Something that a person should know, and that lets the run go on. False: it does not show the warning, which goes
  /// to stderr, if it is one of the run's first 10,000, where no other callback shows it either.
  virtual auto on_warning(std::string_view /*text*/) -> bool { return false; }
  /// A line of the program's, `TrainContext::print`, in order with its reports. False: it does not show the line, which
  /// goes to stdout where no other callback shows it either.
  virtual auto on_print(std::string_view /*line*/) -> bool { return false; }
  /// A worker failed, or without `ErrorInfo::rank` the controller's own work.
  virtual void on_failure(ErrorInfo const&) {}
  /// Workers are about to be launched again: after a failure, or without one since another number of them is to go on
  /// or a process was taken away (`AttemptInfo::preemptions`). `before`: the attempt before. `resumed_from`: none where
  /// they begin anew, as at the beginning.
  virtual void on_restart(AttemptInfo const& /*before*/, std::optional<Checkpoint> const& /*resumed_from*/) {}
  /// The run has ended, also when it failed or was stopped; not called when no worker could be started. Nothing comes
  /// after it but the warning or failure of an `on_finish` that throws.
  virtual void on_finish(Result const&) {}

  /// Whether an exception thrown by this callback makes the run fail, in `on_finish` too; one thrown by `on_warning` or
  /// `on_failure` never does.
  [[nodiscard]] virtual auto critical() const noexcept -> bool { return false; }
};

using Callbacks = std::vector<std::shared_ptr<Callback>>;

}  // namespace raytrain
