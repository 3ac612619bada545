// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <stop_token>

#include <raytrain/core/file_descriptor.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/signs_of_life.hpp>
#include <raytrain/launch/message_sink.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain {

/// Where one worker stands among all workers, and what it may use.
struct Placement {
  Rank world_rank{};
  WorldSize world_size{1};
  Rank local_rank{};  ///< Among the workers of the same host.
  WorldSize local_world_size{1};
  Rank node_rank{};              ///< The host's number among the hosts.
  WorldSize process_workers{1};  ///< Workers of the same process.
  int cpus = 1;                  ///< Threads the worker may use, its own included.
  int host_cpus = 1;             ///< Cores that all workers of the same host may run on together.
};

/// A worker's connection to its controller, and what the controller has told the worker last.
///
/// Threads: every function from any thread.
class WorkerLink {
 public:
  /// `sink` is the controller's, and outlives the link.
  WorkerLink(Placement placement, MessageSink& sink, Attempt attempt = {})
      : placement_{placement}, attempt_{attempt}, sink_{sink} {}

  [[nodiscard]] auto placement() const noexcept -> Placement const& { return placement_; }

  /// In whose name the worker's messages are.
  [[nodiscard]] auto attempt() const noexcept -> Attempt { return attempt_; }

  /// In this worker's name; as `MessageSink::send`.
  ///
  /// Errors: `invalid_call` in a process that was forked from the worker's.
  void send(WorkerMessage message);

  /// Whether this process was forked from the worker's, and has a copy of this link.
  [[nodiscard]] auto is_forked() const noexcept -> bool { return generation_ != detail::fork_generation(); }

  /// Fires when the worker should end soon.
  [[nodiscard]] auto stop_token() const noexcept -> std::stop_token { return stop_.get_token(); }
  /// Fires when the worker must end at its next call that waits; `stop_token` has fired before.
  [[nodiscard]] auto aborted() const noexcept -> std::stop_token { return abort_.get_token(); }

  /// Returns once this rank's checkpoint is committed.
  ///
  /// Errors: `Stopped` when the worker is aborted first.
  void wait_committed(CheckpointOrdinal checkpoint);

  /// What became of the newest checkpoint for which nobody need wait any longer.
  struct Settled {
    SignsOfLife::Clock::time_point at{};  ///< When the process learned of it.
    bool is_committed = false;            ///< Else it never will be.
    friend auto operator==(Settled const&, Settled const&) -> bool = default;
  };

  /// The newest one's, once nobody need wait for this one any longer.
  [[nodiscard]] auto settled(CheckpointOrdinal checkpoint) -> std::optional<Settled>;

  /// The same as `wait_committed`, and also returns when the worker is aborted, or the time is over.
  void wait_committed_for(CheckpointOrdinal checkpoint, std::chrono::milliseconds limit);

  /// The worker's; it outlives all who look at them.
  [[nodiscard]] auto signs_of_life() noexcept -> SignsOfLife& { return signs_of_life_; }

  /// For launchers: a `Stop` or a `CheckpointSettled` from the controller.
  void deliver(ControllerMessage const& message);

 private:
  Placement placement_;
  Attempt attempt_;
  MessageSink& sink_;
  std::uint32_t generation_ = detail::fork_generation();
  std::stop_source stop_;
  std::stop_source abort_;
  std::mutex mutex_;
  std::condition_variable changed_;
  SignsOfLife signs_of_life_;
  std::uint64_t settled_ = 0;  // checkpoints of this rank for which nobody need wait
  Settled last_settled_;
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/launch/worker_link-inl.hpp>
#endif
