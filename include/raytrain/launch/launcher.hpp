// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <raytrain/collective/collective.hpp>
#include <raytrain/collective/collective_group.hpp>
#include <raytrain/collective/wait_limits.hpp>
#include <raytrain/config/scaling_config.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/launch/message_sink.hpp>
#include <raytrain/launch/worker_link.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain {

/// For how many workers there is room.
struct Room {
  WorldSize workers{};
  bool moves{};  ///< Workers run where they may not any more.
  friend auto operator==(Room const&, Room const&) -> bool = default;
};

/// What a launcher gives to each worker.
struct Worker {
  WorkerLink& link;
  std::shared_ptr<CollectiveGroup> group;                        ///< Its collective's; never null.
  std::function<std::unique_ptr<Collective>()> make_collective;  ///< Called once, on the worker's thread.
};

/// What every worker runs, on its own thread. Must not throw: a failure is a `Failed` message.
using WorkerMain = std::function<void(Worker)>;

/// What a launcher starts on every worker, and what it needs for it.
struct WorkerLaunch {
  WorkerMain main;
  MessageQueue& queue;  ///< For the messages of all workers, until `Launcher::join` has returned.
  WaitLimits limits{};  ///< For the workers' collectives; `on_warning` is called from their threads.
  Begin begin{};        ///< For workers in other processes.
};

/// Where workers run, and the connection by which they and the controller tell each other things.
///
/// Threads: everything from the controller's.
class Launcher {
 public:
  Launcher() = default;
  Launcher(Launcher const&) = delete;
  auto operator=(Launcher const&) -> Launcher& = delete;
  /// As `join`.
  virtual ~Launcher() = default;

  /// Workers of the next `launch`. Changed by `resize` alone.
  [[nodiscard]] virtual auto size() const noexcept -> WorldSize = 0;

  /// What `resize` may be called with.
  [[nodiscard]] virtual auto range() const noexcept -> WorkerRange { return {size(), size(), size()}; }

  /// Before `launch` is called again, while no worker runs: so many workers it starts.
  virtual void resize(WorldSize) {}

  /// Whether `room` may change by itself.
  [[nodiscard]] virtual auto watches_room() const noexcept -> bool { return false; }

  /// For how many workers of `range` there is room now. Threads: any.
  [[nodiscard]] virtual auto room() -> Room { return {range().most}; }

  /// As `room`, and may take seconds: now and then hosts that did not answer are asked again. Until `join` is called.
  /// Threads: any one.
  [[nodiscard]] virtual auto look_for_room() -> Room { return room(); }

  /// From now on `room` is for others in place of those that were lost, too, if it was for a while for those that are
  /// left: another number of workers is asked for.
  virtual void replace_lost() {}

  /// Whether a process that was left behind, or is lost, costs no more than its worker: the next `launch` starts
  /// another one.
  [[nodiscard]] virtual auto replaces_processes() const noexcept -> bool { return false; }

  /// Between two attempts: whether that worker of the one before had a process that goes on in the next one, as far as
  /// it is known.
  [[nodiscard]] virtual auto keeps_process_of(Rank) -> bool { return true; }

  /// Before `launch` is called again, while no worker runs: gives the hosts that the next one does without and the one
  /// before did not, since they do not answer any more. Waits for their answers until `join` is called.
  ///
  /// Threads: any one.
  /// Errors:  `worker_failed` when too few are left.
  [[nodiscard]] virtual auto leave_out_lost_hosts() -> std::vector<std::string> { return {}; }

  /// Starts the workers of this process and tells other processes to start theirs, `size()` in all, each on one
  /// operating system thread for its whole life; returns without waiting for any of them. Each worker's messages reach
  /// the queue in the order in which it sent them. A worker that another process cannot start fails as a message.
  /// Called again for another attempt, once each worker of the one before has sent its last message or was left behind;
  /// that only where the launcher replaces processes.
  ///
  /// Errors: `worker_failed` when this process cannot start one; then no worker runs, here or elsewhere.
  virtual void launch(WorkerLaunch what) = 0;

  /// Reaches every worker that has not ended, and never waits for one.
  virtual void tell(ControllerMessage const& message) = 0;

  /// Waits until the workers of this process have ended. Nothing reaches the queue of `launch` afterwards.
  virtual void join() noexcept = 0;

  /// The run goes on, or ends, without these workers, which do not return. Where processes are replaced, theirs are
  /// killed at once, nothing is written, and `join` follows in the end. Otherwise this replaces `join`: it writes
  /// `exit_text` to stderr at once. The process of each such worker ends with exit status 75, in the launcher's
  /// destructor or in `Job::end`; until then its workers use what they were given.
  virtual void leave_workers_behind(std::vector<Rank> const& workers, std::string const& exit_text) noexcept = 0;
};

}  // namespace raytrain
