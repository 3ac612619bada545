// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <raytrain/config/scaling_config.hpp>
#include <raytrain/core/rank.hpp>
#include <raytrain/launch/launcher.hpp>
#include <raytrain/launch/worker.hpp>
#include <raytrain/launch/worker_link.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain {

/// A setting of this process that must be the same in all.
struct SharedSetting {
  std::string name;
  std::string value;
  void serialize(auto& archive) { archive(name, value); }
};

/// A job of several processes during one `fit()`, as one of them sees it. On rank 0 it launches: its own worker on a
/// thread, the others by a word to their processes.
///
/// Threads: everything from the thread that calls `fit()`, unless it says otherwise.
class RankJob : public Launcher {
 public:
  [[nodiscard]] virtual auto rank() const noexcept -> Rank = 0;

  /// Where this process's worker stands.
  [[nodiscard]] virtual auto placement() const noexcept -> Placement const& = 0;

  /// Rank 0: tells the other processes, not this one, of much at once; waits while more than 1 MiB is unwritten for
  /// one.
  virtual void tell_patiently(ControllerMessage const& message) = 0;

  /// Other ranks: hands on what the controller says, and why nothing more will come if the connection ends too early;
  /// from a thread of the job's.
  virtual void follow(std::function<void(ControllerMessage)> on_message, std::function<void(std::string)> on_lost) = 0;

  /// Other ranks: to the controller, from any thread; waits while much is on its way. False once the connection is
  /// gone.
  virtual auto send(WorkerMessage message) -> bool = 0;

  /// Other ranks: runs the one worker of this process on a thread of its own. `join` waits for it.
  virtual void launch_here(WorkerMain main, WorkerLink& link, std::function<void(std::string const&)> on_warning) = 0;

  /// Other ranks: another one's training function has ended. From any thread.
  virtual void leave(Left const& left) noexcept = 0;

  /// The last call: ends the connections in order.
  virtual void end() noexcept = 0;
};

/// What a process brings to a job.
struct JobRequest {
  ScalingConfig scaling{};
  std::chrono::milliseconds collective_timeout{};
  std::vector<SharedSetting> settings{};
};

/// Takes part in the job that this process belongs to. All its processes call it, and each waits for the others.
///
/// Errors: `invalid_config` on all ranks when settings differ; `timed_out` when ranks do not come; `invalid_call` when
/// one was lost or did not come in an earlier `fit()`; `backend`; `io`.
using OpenRankJob = std::unique_ptr<RankJob> (*)(JobRequest const& request);

namespace detail {

/// Null in a program without <raytrain/launch/ranks.hpp>.
inline OpenRankJob open_rank_job = nullptr;

/// Errors: `invalid_config` in a program without it, which would train once for each process of the job.
[[nodiscard]] auto open_rank_job_of_program() -> OpenRankJob;

}  // namespace detail
}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/launch/rank_job-inl.hpp>
#endif
