// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <raytrain/core/identifiers.hpp>
#include <raytrain/launch/control_server.hpp>
#include <raytrain/launch/detail/remote_workers.hpp>
#include <raytrain/launch/launcher.hpp>
#include <raytrain/launch/rank_job.hpp>
#include <raytrain/launch/worker_link.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain {

/// Rank 0 of a job: launches its own worker on a thread, and the others by a `Begin` message to their processes. What
/// they and the controller tell each other goes through sockets.
class RankLeader final : public Launcher {
 public:
  /// Each other rank makes its `ControllerConnection` meanwhile.
  ///
  /// Errors: `io` on all ranks when this one cannot listen or another one cannot connect; as `RankJob`.
  explicit RankLeader(RankJob& job);
  ~RankLeader() override;

  [[nodiscard]] auto size() const noexcept -> WorldSize override { return job_.size(); }

  void launch(WorkerLaunch what) override;
  void tell(ControllerMessage const& message) override;
  void join() noexcept override;
  void leave_workers_behind(std::vector<Rank> const& workers, std::string const& exit_text) noexcept override;

  /// The last call: ends the connections in order.
  void end() noexcept;

 private:
  void listen();
  void tell_others(ControllerMessage const& message);
  [[nodiscard]] auto has_lost_ranks() -> bool;
  /// Errors: `worker_failed` where a process is lost, for which the others would wait.
  void check_nobody_lost();

  // On the server's thread:
  void lose_rank(Rank rank, std::string const& why);

  RankJob& job_;
  detail::RemoteWorkers workers_;
  std::mutex mutex_;
  std::string lost_;  ///< What is known of the first process that is; empty before.
  std::optional<WorkerLink> link_;
  std::optional<ControlServer> server_;  ///< None in a job of one.
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/launch/rank_leader-inl.hpp>
#endif
