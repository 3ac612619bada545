// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <raytrain/collective/collective.hpp>
#include <raytrain/collective/collective_group.hpp>
#include <raytrain/config/scaling_config.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/launch/detail/worker_cores.hpp>
#include <raytrain/launch/job.hpp>
#include <raytrain/launch/job_environment.hpp>
#include <raytrain/launch/launcher.hpp>
#include <raytrain/launch/object_exchange.hpp>
#include <raytrain/launch/worker_link.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain {

/// What a process brings to a job.
struct JobRequest {
  ScalingConfig scaling{};
  std::chrono::milliseconds collective_timeout{};
  std::vector<SharedSetting> settings{};
  std::vector<Rank> lost_ranks{};  ///< As in `Begin`.
};

/// Comes together with the other ranks of the job that this process belongs to; the collective's warnings go to
/// `on_warning`, from any thread.
///
/// Errors: `timed_out` when ranks do not come; `invalid_call` when one was lost or did not come in an earlier `fit()`;
///         `backend`.
using Rendezvous = std::unique_ptr<JobWorld> (*)(JobRequest const& request,
                                                 std::function<void(std::string const&)> on_warning);

namespace detail {

/// Null in a program without <raytrain/launch/ranks.hpp>.
inline Rendezvous rendezvous = nullptr;

/// Ends MPI in a process that a supervisor has started, whose `main` does not go on. Null likewise.
inline void (*finalize_ranks)() noexcept = nullptr;

/// Whether this process is in MPI now. Null likewise.
inline bool (*mpi_has_begun)() noexcept = nullptr;

/// Errors: `invalid_config` in a program without it, which would train once for each process of the job.
[[nodiscard]] auto rendezvous_of_program() -> Rendezvous;

/// A process of a job, as the others name it.
struct RankProcess {
  std::string hostname;
  std::int64_t pid = 0;
  std::uint32_t first_here = 0;  ///< Lowest rank of its host.
  std::vector<int> cores;
  void serialize(auto& archive) { archive(hostname, pid, first_here, cores); }
};

/// What keeps a process from going on, as the others are told of it.
struct RankProblem {
  bool is_there = false;
  Errc code{};
  std::string happened;
  std::string remedy;
  void serialize(auto& archive) { archive(is_there, code, happened, remedy); }
};

/// Where the other ranks find the controller.
struct ControllerAddress {
  std::string token;
  std::vector<std::string> addresses;
  void serialize(auto& archive) { archive(token, addresses); }
};

}  // namespace detail

/// This process's part in the MPI job that it is a rank of. All processes of the job have one; rank 0's then has a
/// `RankLeader`, each other one a `ControllerConnection`.
///
/// Threads: as `Job`.
class RankJob final : public Job {
 public:
  /// Each process waits for the others.
  ///
  /// Errors: `invalid_config` on all ranks when settings differ, or their number is another one than is asked for; as
  ///         `Rendezvous`.
  explicit RankJob(JobRequest request);
  /// Of a job that a supervisor has started, whose settings come with its first `Begin`. The processes wait for each
  /// other in `prepare`, with the errors of the other constructor.
  RankJob(JobRequest request, JobEnvironment const& environment);
  ~RankJob() override {
    join_worker();
    end();
  }

  [[nodiscard]] auto process_of(Rank rank) const -> detail::RankProcess const& { return processes_.at(rank.value); }

  /// The error in the name of that rank, on its host.
  [[nodiscard]] auto failure_of(Rank rank, ErrorInfo error) const -> Failed;

  /// Nothing for the first attempt of a job without a supervisor, whose constructor has done it.
  void prepare(Begin const& begin) override;

  // Before the first worker starts, on all ranks in the same order:

  /// What has failed on one rank all throw, with its code and remedy; none where no rank has a problem.
  void fail_together(std::string const& attempted, std::optional<ErrorInfo> const& problem = {});

  /// Rank 0's value.
  template <Transferable T>
  [[nodiscard]] auto broadcast(T value) -> T {
    return together([&] { return detail::broadcast_object(*world_->collective, std::move(value), Rank{0}); });
  }

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

  /// For the first time.
  void join(std::string const& difference);
  [[nodiscard]] auto come_together() const -> std::unique_ptr<JobWorld>;
  void place();
  [[nodiscard]] auto size_problem() const -> std::string;

  JobRequest request_;
  Rank rank_of_process_{};  ///< In the job that a supervisor has started, whichever ranks are lost.
  std::vector<detail::RankProcess> processes_;
};

namespace detail {

/// How a setting of this process differs from the controller's; empty where none does.
[[nodiscard]] auto difference_of(std::vector<SharedSetting> const& here, std::vector<SharedSetting> const& there,
                                 std::string const& where) -> std::string;

}  // namespace detail

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/launch/rank_job-inl.hpp>
#endif
