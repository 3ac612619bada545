// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include <raytrain/collective/collective.hpp>
#include <raytrain/collective/collective_group.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/launch/detail/worker_cores.hpp>
#include <raytrain/launch/launcher.hpp>
#include <raytrain/launch/worker_link.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain {

/// The workers of a job during one attempt, as one of their processes sees them.
struct JobWorld {
  JobWorld() = default;
  JobWorld(JobWorld const&) = delete;
  auto operator=(JobWorld const&) -> JobWorld& = delete;
  virtual ~JobWorld() = default;

  /// The lowest rank of this rank's host.
  [[nodiscard]] virtual auto first_rank_of_host() const noexcept -> Rank = 0;

  /// A rank is lost, or does not come: this process will not wait for it when it ends.
  virtual void abandon() noexcept = 0;

  std::shared_ptr<CollectiveGroup> group;
  std::unique_ptr<Collective> collective;
};

namespace detail {

/// Where texts of a collective go, which is made before anybody takes them: to stderr, until somebody does.
class WarningRelay {
 public:
  void send_to(std::function<void(std::string const&)> to);
  /// As before anybody took them.
  void send_to_stderr();
  void tell(std::string const& text);

 private:
  std::mutex mutex_;
  std::function<void(std::string const&)> to_;
  bool is_taken_ = false;
};

}  // namespace detail

/// This process's part in a job of several during one `fit()`, and the one worker that it runs.
///
/// Threads: everything from the thread that calls `fit()`, unless it says otherwise.
class Job {
 public:
  Job(Job const&) = delete;
  auto operator=(Job const&) -> Job& = delete;
  /// Call `join_worker` before.
  virtual ~Job() = default;

  [[nodiscard]] auto size() const noexcept -> WorldSize { return placement_.world_size; }
  [[nodiscard]] auto rank() const noexcept -> Rank { return placement_.world_rank; }

  /// Where this process's worker stands.
  [[nodiscard]] auto placement() const noexcept -> Placement const& { return placement_; }

  /// Comes together with the others for the worker of this attempt, when the one before has ended.
  ///
  /// Errors: `invalid_config` when this process has other settings than the controller's; `io`; as `Rendezvous`.
  virtual void prepare(Begin const& begin) = 0;

  /// Runs the worker of this process on a thread of its own. Its collective's warnings go to `on_warning`.
  ///
  /// Errors: `worker_failed` when the system gives no thread.
  void start_worker(WorkerMain main, WorkerLink& link, std::function<void(std::string const&)> on_warning);

  /// Waits until the worker has ended, if there is one and it was not left behind. Nobody is warned afterwards.
  void join_worker() noexcept;

  /// A rank's training function has ended after so many operations: `CollectiveGroup::leave`. From any thread.
  void tell_group(RankReturned const& returned) noexcept;

  /// A rank is lost, as `JobWorld::abandon`. From any thread.
  void abandon() noexcept;

  /// The job goes on without these workers, which do not return. If this process's is among them, `exit_text` is
  /// written to stderr now, and `end` ends the process. From any thread.
  void leave_workers_behind(LeftBehind const& left) noexcept;

  /// The last call: ends the process with exit status 75 if its worker was left behind.
  void end() noexcept;

 protected:
  Job() = default;

  /// Destroys the job's world, then makes the next one by `make`: a process has one world at a time.
  void renew_world(std::function<std::unique_ptr<JobWorld>()> const& make);

  [[nodiscard]] auto on_warning() const -> std::function<void(std::string const&)> {
    return [to = warnings_](std::string const& text) { to->tell(text); };
  }

  std::unique_ptr<JobWorld> world_;
  std::optional<detail::WorkerCores> cores_;
  Placement placement_;

 private:
  std::shared_ptr<detail::WarningRelay> warnings_ = std::make_shared<detail::WarningRelay>();
  std::mutex world_mutex_;  ///< What other threads do with the world, and its replacement.
  bool abandoned_ = false;
  std::atomic<bool> leaves_worker_behind_ = false;  ///< This process's worker.
  std::jthread worker_;
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/launch/job-inl.hpp>
#endif
