// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <raytrain/core/identifiers.hpp>
#include <raytrain/launch/control_server.hpp>
#include <raytrain/launch/launcher.hpp>
#include <raytrain/launch/rank_job.hpp>
#include <raytrain/launch/worker_link.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain {

/// Rank 0 of a job: launches its own worker on a thread, and the others by a `Begin` message to their processes. What
/// they and the controller tell each other goes through sockets.
class RankLeader final : public Launcher {
 public:
  /// Each other rank makes its `RankSeat` meanwhile.
  ///
  /// Errors: `io` on all ranks when this one cannot listen or another one cannot connect; as `RankJob`.
  explicit RankLeader(RankJob& job);
  ~RankLeader() override;

  [[nodiscard]] auto size() const noexcept -> WorldSize override { return job_.size(); }

  void launch(WorkerLaunch what) override;
  void tell(ControllerMessage const& message) override;
  void join() noexcept override;
  void leave_behind(std::vector<Rank> const& workers, std::string const& exit_text) noexcept override;

  /// The last call: ends the connections in order.
  void end() noexcept;

 private:
  void listen();
  void tell_others(ControllerMessage const& message);
  /// Errors: `worker_failed` where a process is lost, for which the others would wait.
  void check_nobody_lost();

  // On the server's thread:
  [[nodiscard]] auto hand_on(Rank rank, WorkerMessage& message) -> bool;
  void lose(Rank rank, std::string const& why);
  /// To the controller, without waiting for it, since the connections of all ranks wait meanwhile.
  void push(WorkerMessage message);

  RankJob& job_;
  std::mutex mutex_;
  std::shared_ptr<MessageSink const> sink_;  ///< Null before `launch`, and after `join`.
  bool joined_ = false;
  std::string lost_;                        ///< What is known of the first process that is; empty before.
  std::vector<WorkerMessage> kept_;         ///< For the controller, which does not take messages yet.
  std::atomic<std::uint64_t> attempt_ = 1;  ///< That of the last `launch`.
  std::vector<std::uint64_t> ended_in_;     ///< By rank, the last attempt that it has ended; the server's thread only.
  std::optional<WorkerLink> link_;
  std::optional<ControlServer> server_;  ///< None in a job of one.
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/launch/rank_leader-inl.hpp>
#endif
