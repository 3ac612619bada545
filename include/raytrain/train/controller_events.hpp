// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <variant>
#include <vector>

#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/message/message.hpp>
#include <raytrain/train/run_state.hpp>

namespace raytrain {

// Events: what happened. A `WorkerMessage` is one too.

/// The driver is ready.
struct RunBegins {
  std::uint64_t training_iteration{};  ///< Rank 0's last report before the checkpoint that workers go on from.
};

/// The time of a `RestartWorkers` is over, and the checkpoint to go on from is found.
struct RestartDue {
  std::uint64_t training_iteration{};    ///< As in `RunBegins`.
  std::optional<WorldSize> room{};       ///< As in `RoomChanged`; none: as before.
  bool is_verified = true;               ///< False: nobody has read the checkpoint's files, of which workers keep some.
  std::set<CheckpointNumber> damaged{};  ///< The checkpoints that turned out so.
};

/// Somebody asks for another number of workers, within `RunPolicy::workers`.
struct ResizeAsked {
  std::int64_t workers{};
  bool is_change{};  ///< `workers` is added to the number that train, or are to train; it may be negative.
};

/// There is room for another number of workers: hosts have come, or are lost.
struct RoomChanged {
  WorldSize room{};
  bool moves{};  ///< Some workers run where they may not any more: all are to be started again.
};

/// The workers of a later attempt than the first could not be launched, and none runs.
struct LaunchFailed {
  ErrorInfo error;
};

/// The start timeout of this attempt is over: workers that have not sent their first message count as failed.
struct StartIsDue {
  Attempt attempt{};
  std::chrono::milliseconds limit{};
};

/// A checkpoint lies committed in the store.
struct CheckpointDurable {
  CheckpointOrdinal checkpoint{};  ///< As in `Report::checkpoint`.
  CheckpointNumber number{};       ///< In the store.
};

/// A checkpoint whose parts had arrived could not be committed.
struct CheckpointLost {
  CheckpointOrdinal checkpoint{};
  ErrorInfo error;
};

/// A callback asks the run to end, as often as it likes.
struct CallbackStop {
  bool finished{};  ///< The run has reached what it was started for.
};

/// The time since the last `ArmGrace` is over.
struct GraceOver {
  bool ends_processes = false;  ///< Workers that did not return are ended with their processes.
};

using RunEvent = std::variant<RunBegins, RestartDue, LaunchFailed, WorkerMessage, StartIsDue, CheckpointDurable,
                              CheckpointLost, CallbackStop, GraceOver, ResizeAsked, RoomChanged>;

// Actions: what to do now.

struct LaunchWorkers {
  Attempt attempt{};
  WorldSize world_size{};
  CheckpointOrdinal first_checkpoint{};  ///< The workers' next one; those before it are of earlier attempts.
};

/// All workers have ended, by a failure or for another number of them: wait, then answer with `RestartDue`. Voids an
/// `ArmGrace`.
struct RestartWorkers {
  std::vector<ErrorInfo> failures;  ///< In the order of their arrival: the first one is the cause. May be empty.
  std::vector<CheckpointOrdinal> unfinished{};  ///< Checkpoints of which not all parts have come, to be discarded.
  std::chrono::milliseconds wait{};
  std::vector<Rank> left_behind{};       ///< Workers that have not returned, whose processes are to be replaced.
  std::vector<ErrorInfo> preemptions{};  ///< As `AttemptInfo::preemptions`.
};

struct TellWorkers {
  ControllerMessage message;
};

/// Start the time after which `GraceOver` is due, anew if it runs.
struct ArmGrace {
  enum class Grace : std::uint8_t {
    to_report,  ///< `RunConfig::stop_grace`, to come to the next report.
    to_return,  ///< `RunConfig::return_grace()`, after the abort.
    at_once,    ///< 0.5 s, since somebody asked twice.
    of_stop,    ///< 1 s: so much later a stop may still come that was meant by a SIGTERM to workers' processes.
  };
  Grace grace = Grace::to_report;
};

/// All ranks have staged their parts of a checkpoint. Answered by `CheckpointDurable` or `CheckpointLost`.
struct CommitCheckpoint {
  CheckpointOrdinal checkpoint{};
  std::vector<CheckpointRef> refs;                 ///< In rank order.
  Report rank_0_report;                            ///< Its metrics give the checkpoint its score.
  std::vector<std::uint64_t> training_iterations;  ///< That of each rank's report, in rank order.
};

/// The retention policy has no more use for a committed checkpoint.
struct DeleteCheckpoint {
  CheckpointNumber number{};  ///< In the store.
};

/// Not all parts of a checkpoint could be written: those that were are good for nothing.
struct DiscardCheckpoint {
  CheckpointOrdinal checkpoint{};  ///< As in `Report::checkpoint`.
};

/// Something for the driver to record, and to tell callbacks where they have a function for it.
struct RecordMessage {
  std::variant<Started, Report, CheckpointDurable, Progress, Warning, PrintedLine, ErrorInfo> what;
};

/// The last action: a terminal state is reached. `failures` in the order of arrival, the first one is the cause.
struct FinishRun {
  RunState state{};
  std::vector<ErrorInfo> failures;
  std::vector<Rank> left_behind{};       ///< Workers that have not returned: their processes end.
  std::vector<ErrorInfo> preemptions{};  ///< As `AttemptInfo::preemptions`.
};

using RunAction = std::variant<LaunchWorkers, RestartWorkers, TellWorkers, ArmGrace, CommitCheckpoint, DeleteCheckpoint,
                               DiscardCheckpoint, RecordMessage, FinishRun>;

}  // namespace raytrain
