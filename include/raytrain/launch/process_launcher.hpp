// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <raytrain/collective/collective_group.hpp>
#include <raytrain/config/scaling_config.hpp>
#include <raytrain/core/file_descriptor.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/launch/control_server.hpp>
#include <raytrain/launch/detail/child_process.hpp>
#include <raytrain/launch/detail/process_mark.hpp>
#include <raytrain/launch/detail/remote_workers.hpp>
#include <raytrain/launch/launcher.hpp>
#include <raytrain/launch/supervisor.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain {

/// Workers are processes of this host, each this program started again, which exchange arrays through shared memory.
/// This process, their supervisor, has none itself. One that is lost costs a worker: the next `launch` starts another
/// process in its place, and those that are there run on.
class ProcessLauncher final : public Supervisor {
 public:
  explicit ProcessLauncher(SupervisorOptions options);
  /// Kills what is left of the processes.
  ~ProcessLauncher() override;

  [[nodiscard]] auto keeps_process_of(Rank rank) -> bool override;
  void launch(WorkerLaunch what) override;
  void tell(ControllerMessage const& message) override;

  /// Kills these processes.
  void leave_workers_behind(std::vector<Rank> const& workers, std::string const& exit_text) noexcept override;

  void end() noexcept override;

 private:
  /// One rank's process, and what is known of its end.
  struct Process {
    std::unique_ptr<detail::ChildProcess> child;
    std::optional<detail::ProcessMark> mark;  ///< Of what it starts.
    bool is_disconnected = true;
    std::string kill_reason;  ///< Why this launcher has killed it of its own accord; empty where it has not.
    std::optional<detail::ProcessExit> exit;  ///< None while it runs.
    bool end_is_wanted = false;  ///< It was given up, or another one takes its place: nobody is told of its end.
    Attempt attempt{0};          ///< In which it takes part.
    bool is_preempted = false;   ///< Another one takes its place in the next attempt.
  };

  /// Whether it can take part in the next attempt. Only with the lock.
  [[nodiscard]] static auto goes_on(Process const& process) -> bool {
    return !process.is_disconnected && !process.exit && !process.end_is_wanted;
  }

  /// True when the rank has no process. If its process is ending, waits for that first.
  [[nodiscard]] auto has_no_process(Rank rank) -> bool;
  void start_process(Rank rank);
  void kill(Rank rank) noexcept;
  /// From now on it is this attempt; the processes that are not to take part in it have no more to do.
  void begin_attempt(WorkerLaunch& what);
  /// Those that have not come to `fit()` yet are not waited for.
  void stop_before_they_start();

  // From other threads:
  [[nodiscard]] auto take(Rank rank, WorkerMessage& message) -> bool;
  [[nodiscard]] auto is_suspended(Rank rank) -> bool;
  void disconnected(Rank rank, ControlServer::LostConnection const& lost);
  void said_goodbye(Rank rank);
  void exited(Rank rank, detail::ProcessExit exit);
  /// Tells the controller, once both its connection and the process itself have ended.
  void tell_of_end(Rank rank, std::unique_lock<std::mutex> lock);

  std::shared_ptr<CollectiveGroup> group_;  ///< Of the last launch.
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Process> processes_;  ///< By rank.
  bool is_ending_ = false;          ///< Processes end in order from now on.
  ControlServer server_;
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/launch/process_launcher-inl.hpp>
#endif
