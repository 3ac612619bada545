// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/metrics.hpp>
#include <raytrain/core/shard_position.hpp>

namespace raytrain {

/// Metrics of one report; more of them are not read back from a file or from the wire.
inline constexpr std::size_t max_metrics = 4096;

/// One file of a checkpoint. `name` is relative to the checkpoint, with '/' between folders.
struct FileEntry {
  std::string name;
  std::uint64_t size_bytes{};
  std::string xxh3;  ///< XXH3-128 of the content, 32 hexadecimal digits.
  friend auto operator==(FileEntry const&, FileEntry const&) -> bool = default;
};

/// A worker's thread runs; sent first by every worker.
struct Started {
  Started() = default;
  Started(Rank rank_, std::string hostname_, std::int64_t pid_, std::string node_ip_)
      : rank{rank_}, hostname{std::move(hostname_)}, pid{pid_}, node_ip{std::move(node_ip_)} {}

  Rank rank{};
  std::string hostname;
  std::int64_t pid{};
  std::string node_ip;
  Attempt attempt{};
  friend auto operator==(Started const&, Started const&) -> bool = default;
};

/// What a worker reported, with the values that every report gains.
struct Report {
  Rank rank{};
  std::uint64_t training_iteration{};  ///< Reports of this rank so far, this one included; goes on after a resume.
  double time_this_iter_s{};
  double time_total_s{};
  double time_waiting_s{};      ///< Part of `time_this_iter_s`: waits for other workers and for its checkpoints.
  std::int64_t timestamp_ns{};  ///< Time of day, nanoseconds since 1970.
  std::optional<CheckpointOrdinal> checkpoint;  ///< The one that comes with it.
  Metrics metrics;                              ///< The user's own.
  bool hands_over{};  ///< It only brings a checkpoint (`TrainContext::hand_over`), and is not counted.
  /// An earlier checkpoint that was held in memory and is never written, since this one takes its place.
  std::optional<CheckpointOrdinal> replaces{};
  Attempt attempt{};
  friend auto operator==(Report const&, Report const&) -> bool = default;
};

/// A rank has staged its part of a checkpoint, complete and durable; or could not, and goes on.
struct CheckpointRef {
  Rank rank{};
  CheckpointOrdinal checkpoint{};  ///< As in `Report::checkpoint`.
  std::vector<FileEntry> files;
  std::map<std::string, std::string> metadata;
  std::map<std::string, std::uint64_t> batch_sizes{};  ///< By dataset, as this rank took it last.
  std::map<std::string, ShardPosition> positions{};    ///< By dataset, as far as this rank has taken it.
  std::map<std::string, std::string> orders{};         ///< By dataset, in which order it takes that epoch's rows.
  std::optional<ErrorInfo> failure{};                  ///< Why it could not, with `OnFailedWrite::warn`.
  Attempt attempt{};
  friend auto operator==(CheckpointRef const&, CheckpointRef const&) -> bool = default;
};

/// How far a worker is between two reports; shown to people, never stored.
struct Progress {
  Progress() = default;
  Progress(Rank rank_, std::uint64_t done_, std::uint64_t total_, std::string note_)
      : rank{rank_}, done{done_}, total{total_}, note{std::move(note_)} {}

  Rank rank{};
  std::uint64_t done{};
  std::uint64_t total{};
  std::string note;
  Attempt attempt{};
  friend auto operator==(Progress const&, Progress const&) -> bool = default;
};

/// A worker, or the controller, has something to say to the person who runs it, once.
struct Warning {
  Warning() = default;
  Warning(Rank rank_, std::string text_) : rank{rank_}, text{std::move(text_)} {}
  explicit Warning(std::string text_) : text{std::move(text_)} {}

  std::optional<Rank> rank;  ///< Set by `WorkerLink::send`; none for a warning of the controller.
  std::string text;
  Attempt attempt{};
  friend auto operator==(Warning const&, Warning const&) -> bool = default;
};

/// What the program says to the person who runs it, `TrainContext::print`, without a line feed at its end.
struct PrintedLine {
  PrintedLine() = default;
  PrintedLine(Rank rank_, std::string text_) : rank{rank_}, text{std::move(text_)} {}

  Rank rank{};
  std::string text;
  Attempt attempt{};
  friend auto operator==(PrintedLine const&, PrintedLine const&) -> bool = default;
};

/// A worker has shown no sign of life for `FailureConfig::hang_timeout`; or, after that, it shows one.
struct Silent {
  Silent() = default;
  Silent(Rank rank_, std::chrono::milliseconds silence) : rank{rank_}, silent_ms{silence.count()} {}

  Rank rank{};
  std::int64_t silent_ms{};  ///< 0: it shows one.
  bool waits{};              ///< It waits for other workers in a collective.
  std::string doing{};       ///< What the system says that its thread does, and where.
  Attempt attempt{};
  friend auto operator==(Silent const&, Silent const&) -> bool = default;
};

/// A worker ended by an exception, or its part of a checkpoint could not be written: its last message. Without a rank
/// the controller's own work failed: a commit, the log, a critical callback.
struct Failed {
  Failed() = default;
  explicit Failed(ErrorInfo error_) : error{std::move(error_)} {}

  ErrorInfo error;
  bool process_is_spent{};  ///< No other worker can run in the process: it is lost, or as
                            ///< `CollectiveGroup::has_pending`.
  Attempt attempt{};
  friend auto operator==(Failed const&, Failed const&) -> bool = default;
};

/// A worker's training function returned, or was unwound because the run is being stopped. Its last message.
struct Finished {
  Finished() = default;
  Finished(Rank rank_, bool stopped_) : rank{rank_}, stopped{stopped_} {}

  Rank rank{};
  bool stopped{};
  std::uint64_t operations{};    ///< Collective operations that this rank called; 0 where each call is compared.
  std::uint64_t calls_digest{};  ///< Of these calls, equal on ranks that called the same; 0 likewise.
  bool process_is_spent{};       ///< As in `Failed`.
  Attempt attempt{};
  friend auto operator==(Finished const&, Finished const&) -> bool = default;
};

/// Somebody asks the run to stop by a signal to this rank's process, for the `times`-th time; asked twice by one
/// process, it ends without grace.
struct StopRequest {
  StopRequest() = default;
  StopRequest(Rank rank_, std::uint32_t times_) : rank{rank_}, times{times_} {}

  Rank rank{};
  std::uint32_t times = 1;
  Attempt attempt{};
  friend auto operator==(StopRequest const&, StopRequest const&) -> bool = default;
};

/// The worker's process was sent a SIGTERM, and the program that has started it was not: it will be taken away.
struct Preempted {
  Rank rank{};
  Attempt attempt{};
  friend auto operator==(Preempted const&, Preempted const&) -> bool = default;
};

/// To a worker: end soon (`abort` false), or at the next call that waits (`abort` true).
struct Stop {
  bool abort{};
  Attempt attempt{};
  bool goes_on{};    ///< The run does not end: another attempt follows this one.
  bool by_signal{};  ///< Whoever sent it may have sent it to the workers' processes, too: their end is no failure.
  friend auto operator==(Stop const&, Stop const&) -> bool = default;
};

/// To a worker: a checkpoint is committed; or it never will be, and the run goes on, with `OnFailedWrite::warn`. Nobody
/// need wait for it any longer.
struct CheckpointSettled {
  CheckpointOrdinal checkpoint{};          ///< As in `Report::checkpoint`.
  std::optional<CheckpointNumber> number;  ///< Under which it is committed; none if it never will be.
  Attempt attempt{};
  friend auto operator==(CheckpointSettled const&, CheckpointSettled const&) -> bool = default;
};

/// A setting that must be the same in all processes of a job.
struct SharedSetting {
  std::string name;
  std::string value;
  void serialize(auto& archive) { archive(name, value); }
  friend auto operator==(SharedSetting const&, SharedSetting const&) -> bool = default;
};

/// To another process than the controller's: the run in which its worker begins.
struct Begin {
  std::string name;
  std::string run_path;
  std::string run_id;
  std::uint64_t start{};   ///< Number of this start in the run's folder.
  std::string start_id;    ///< Of this start alone, whatever folder takes the place of the run's.
  std::string started_at;  ///< As in run.json, by which the process knows that it sees the same folder.
  std::optional<CheckpointNumber> checkpoint;  ///< The one to go on from.
  std::vector<std::string> report_fields;
  std::map<std::string, std::string> metadata{};  ///< As `RunConfig::metadata`.
  CheckpointOrdinal first_checkpoint{};           ///< The workers' next one; those before it are of earlier attempts.
  WorldSize world_size{};                         ///< Workers of this attempt.
  std::vector<SharedSetting> settings{};          ///< Of `Launch::processes` alone, and so is what follows.
  std::string group{};                            ///< The file in which the workers share memory.
  std::uint64_t group_id{};
  Attempt attempt{};
  /// Of the ranks of the processes' job those that are lost, in ascending order: the others go on without them.
  std::vector<Rank> lost_ranks{};
  double between_failures_s{};  ///< Mean time between failures that this start has seen; 0: none so far.
  friend auto operator==(Begin const&, Begin const&) -> bool = default;
};

/// To another process than that of the rank: the rank's training function has ended, and has not failed.
struct RankReturned {
  Rank rank{};
  std::uint64_t operations{};  ///< As in `Finished`.
  Attempt attempt{};
  friend auto operator==(RankReturned const&, RankReturned const&) -> bool = default;
};

/// One launch of the workers within a `fit()`, from which they have ended.
struct AttemptInfo {
  Attempt attempt{};
  WorldSize world_size{};           ///< Its workers.
  std::uint64_t first_iteration{};  ///< Rank 0's reports before it.
  std::uint64_t last_iteration{};   ///< Rank 0's last report, `first_iteration` without any.
  double total_s{};                 ///< From the launch until all workers had ended.
  /// In the order of their arrival, the first one is the cause. Empty without any: of one that another one has
  /// followed, since the number of workers was changed or a process was taken away.
  std::vector<ErrorInfo> failures{};
  /// The workers whose processes were taken away, with rank and host, if that has ended it. They are among `failures`,
  /// too, where `FailureConfig::max_preemptions` was used up.
  std::vector<ErrorInfo> preemptions{};

  // Of one that another one has followed:

  /// Rank 0's reports that the next attempt repeats: those after the checkpoint that it goes on from.
  std::uint64_t lost_reports{};
  /// From that checkpoint's report, or from this attempt's launch if it is older, until the next launch.
  double lost_s{};
  WorldSize next_world_size{};
  /// Those that have not answered since, and on which the next attempt does not run.
  std::vector<std::string> lost_hosts{};
  friend auto operator==(AttemptInfo const&, AttemptInfo const&) -> bool = default;
};

/// To another process than the controller's: what `fit()` gives on every rank. The last message.
struct Ended {
  std::optional<ErrorInfo> thrown;  ///< What `fit()` threw on rank 0; with `failures` it is a `TrainingFailed`.
  std::vector<ErrorInfo> failures;
  std::uint8_t state{};
  Metrics metrics;
  std::string path;
  std::string error;
  std::vector<CheckpointNumber> checkpoints;
  std::vector<std::string> warnings;
  bool nothing_left{};
  std::vector<double> timings;
  std::vector<AttemptInfo> attempts;
  std::map<std::string, std::string> metadata;
  WorldSize world_size{};
  bool has_lost_ranks{};  ///< As in `Begin`: MPI cannot end in order.
  bool is_shortened{};    ///< What made the message too large is left out; metrics are in progress.jsonl.
  Attempt attempt{};
  friend auto operator==(Ended const&, Ended const&) -> bool = default;
};

/// To another process than the controller's, before `Ended`: these workers did not return, and their processes end.
struct LeftBehind {
  std::vector<Rank> ranks;
  std::string exit_text;  ///< What those processes print as they end.
  Attempt attempt{};
  friend auto operator==(LeftBehind const&, LeftBehind const&) -> bool = default;
};

/// Everything that workers and their processes tell the controller. The order is part of the protocol.
using WorkerMessage = std::variant<Started, Report, CheckpointRef, Progress, Warning, Failed, Finished, StopRequest,
                                   Silent, Preempted, PrintedLine>;

/// Everything that the controller tells workers and their processes. The order is part of the protocol.
using ControllerMessage = std::variant<Stop, CheckpointSettled, Begin, RankReturned, Ended, LeftBehind>;

/// The rank that sent the message; none where the controller itself fails or warns.
[[nodiscard]] auto sender_of(WorkerMessage const& message) -> std::optional<Rank>;

[[nodiscard]] auto attempt_of(WorkerMessage const& message) -> Attempt;

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/message/message-inl.hpp>
#endif
