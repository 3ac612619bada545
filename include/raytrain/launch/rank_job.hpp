// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <raytrain/collective/collective.hpp>
#include <raytrain/collective/collective_group.hpp>
#include <raytrain/config/scaling_config.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/launch/detail/worker_cores.hpp>
#include <raytrain/launch/launcher.hpp>
#include <raytrain/launch/object_exchange.hpp>
#include <raytrain/launch/worker_link.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain {

/// A setting of this process that must be the same in all.
struct SharedSetting {
  std::string name;
  std::string value;
  void serialize(auto& archive) { archive(name, value); }
};

/// What a process brings to a job.
struct JobRequest {
  ScalingConfig scaling{};
  std::chrono::milliseconds collective_timeout{};
  std::vector<SharedSetting> settings{};
};

/// The ranks of a job during one `fit()`, as one of them sees them after the rendezvous.
struct RankWorld {
  RankWorld() = default;
  RankWorld(RankWorld const&) = delete;
  auto operator=(RankWorld const&) -> RankWorld& = delete;
  virtual ~RankWorld() = default;

  /// The lowest rank of this rank's host.
  [[nodiscard]] virtual auto first_rank_of_host() const noexcept -> Rank = 0;

  /// A rank is lost, or does not come: this process will not wait for it when it ends.
  virtual void abandon() noexcept = 0;

  std::shared_ptr<CollectiveGroup> group;
  std::unique_ptr<Collective> collective;
};

/// Comes together with the other ranks of the job that this process belongs to; the collective's warnings go to
/// `on_warning`, from any thread.
///
/// Errors: `timed_out` when ranks do not come; `invalid_call` when one was lost or did not come in an earlier `fit()`;
///         `backend`.
using Rendezvous = std::unique_ptr<RankWorld> (*)(JobRequest const& request,
                                                  std::function<void(std::string const&)> on_warning);

namespace detail {

/// Null in a program without <raytrain/launch/ranks.hpp>.
inline Rendezvous rendezvous = nullptr;

/// Errors: `invalid_config` in a program without it, which would train once for each process of the job.
[[nodiscard]] auto rendezvous_of_program() -> Rendezvous;

/// Where texts of a collective go, which is made before anybody takes them: to stderr, until somebody does.
class WarningRelay {
 public:
  void send_to(std::function<void(std::string const&)> to);
  void tell(std::string const& text);

 private:
  std::mutex mutex_;
  std::function<void(std::string const&)> to_;
  bool is_taken_ = false;
};

/// A process of a job, as the others name it.
struct RankProcess {
  std::string hostname;
  std::int64_t pid = 0;
  std::uint32_t first_here = 0;  ///< Lowest rank of its host.
  std::vector<int> cores;
  void serialize(auto& archive) { archive(hostname, pid, first_here, cores); }
};

/// Where the other ranks find the controller.
struct ControllerAddress {
  std::string token;
  std::vector<std::string> addresses;
  void serialize(auto& archive) { archive(token, addresses); }
};

}  // namespace detail

/// This process's part in a job of several during one `fit()`, and the one worker that it runs. All processes of the
/// job have one; rank 0's then has a `RankLeader`, each other one a `RankSeat`.
///
/// Threads: everything from the thread that calls `fit()`, unless it says otherwise.
class RankJob {
 public:
  /// Each process waits for the others.
  ///
  /// Errors: `invalid_config` on all ranks when settings differ, or their number is another one than is asked for; as
  ///         `Rendezvous`.
  explicit RankJob(JobRequest const& request);
  RankJob(RankJob const&) = delete;
  auto operator=(RankJob const&) -> RankJob& = delete;
  ~RankJob() {
    end_worker();
    end();
  }

  [[nodiscard]] auto size() const noexcept -> WorldSize { return placement_.world_size; }
  [[nodiscard]] auto rank() const noexcept -> Rank { return placement_.world_rank; }

  /// Where this process's worker stands.
  [[nodiscard]] auto placement() const noexcept -> Placement const& { return placement_; }

  [[nodiscard]] auto process_of(Rank rank) const -> detail::RankProcess const& { return processes_.at(rank.value); }

  /// The error in the name of that rank, on its host.
  [[nodiscard]] auto failure_of(Rank rank, ErrorInfo error) const -> Failed;

  // Before the worker starts, on all ranks in the same order:

  /// One rank's problem is all ranks' error; none where all give an empty text.
  void fail_together(std::string const& problem, Errc code, std::string const& attempted);

  /// Rank 0's value.
  template <Transferable T>
  [[nodiscard]] auto broadcast(T value) -> T {
    return together([&] { return detail::broadcast_object(*world_->collective, std::move(value), Rank{0}); });
  }

  /// Comes together with the other ranks once more, for another worker of each, when those before have ended.
  ///
  /// Errors: as `Rendezvous`.
  void renew();

  /// Runs the worker of this process on a thread of its own. Its collective's warnings go to `on_warning`.
  ///
  /// Errors: `worker_failed` when the system gives no thread.
  void start_worker(WorkerMain main, WorkerLink& link, std::function<void(std::string const&)> on_warning);

  /// Waits until the worker has ended, if there is one and it was not left behind. Nobody is warned afterwards.
  void end_worker() noexcept;

  /// A rank's training function has ended after so many operations, as `CollectiveGroup::leave`. From any thread.
  void leave(RankReturned const& left) noexcept;

  /// A rank is lost, as `RankWorld::abandon`. From any thread.
  void abandon() noexcept;

  /// These workers do not return. If this process's is among them, it says its last word now. From any thread.
  void leave_behind(LeftBehind const& left) noexcept;

  /// The last call: ends the process with exit status 75 if its worker was left behind.
  void end() noexcept;

 private:
  /// What ranks do together: when one does not come, none can be waited for any more.
  template <class F>
  auto together(F const& exchange) {
    try {
      return exchange();
    } catch (Error const& error) {
      if (error.code() == Errc::timed_out) abandon();
      throw;
    }
  }

  [[nodiscard]] auto come_together() const -> std::unique_ptr<RankWorld>;
  void compare(std::vector<SharedSetting> const& settings);
  void place(ScalingConfig const& scaling);
  [[nodiscard]] auto size_problem(ScalingConfig const& scaling) const -> std::string;

  std::shared_ptr<detail::WarningRelay> warnings_ = std::make_shared<detail::WarningRelay>();
  ScalingConfig scaling_;
  std::chrono::milliseconds collective_timeout_;
  std::mutex world_mutex_;  ///< What other threads do with the world, and its replacement.
  bool abandoned_ = false;
  std::unique_ptr<RankWorld> world_;
  std::vector<detail::RankProcess> processes_;
  std::optional<detail::WorkerCores> cores_;
  Placement placement_;
  std::atomic<bool> left_behind_ = false;  ///< This process's worker.
  std::jthread worker_;
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/launch/rank_job-inl.hpp>
#endif
