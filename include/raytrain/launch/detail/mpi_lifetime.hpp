// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <stop_token>
#include <string>
#include <system_error>
#include <thread>

#include <raytrain/collective/mpi_session.hpp>
#include <raytrain/collective/mpi_survivors.hpp>
#include <raytrain/collective/wait_limits.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/file_descriptor.hpp>
#include <raytrain/core/process.hpp>
#include <raytrain/launch/job_environment.hpp>
#include <raytrain/launch/process_end.hpp>

namespace raytrain::detail {

/// Says what a process waits for that is still in MPI_Init after `WaitLimits::warn_after`, which MPI itself does not.
class StartWatchdog {
 public:
  StartWatchdog() {
    auto const job = job_environment();
    if (!job || job->rank.value > 1) return;  // not all of them: one of these two has come, or both are late
    try {
      thread_ = std::jthread{[rank = job->rank](std::stop_token const& is_over) {
        std::mutex mutex;
        std::unique_lock lock{mutex};
        auto const limit = std::chrono::duration_cast<std::chrono::seconds>(WaitLimits{}.warn_after);
        if (std::condition_variable_any{}.wait_for(lock, is_over, limit, [&] { return is_over.stop_requested(); }))
          return;
        write_stderr("raytrain: rank " + std::to_string(rank.value) + " has waited " + std::to_string(limit.count()) +
                     " s in MPI_Init: not all processes of the job have come to fit(), or MPI cannot connect them\n");
      }};
    } catch (std::system_error const&) {
      return;  // no thread is left; MPI_Init itself will say so, or do without
    }
  }

 private:
  std::jthread thread_;
};

/// Ends this process when the ranks that are left do not come together, for which MPI would wait without end.
class ShrinkWatchdog {
 private:
  static constexpr std::chrono::seconds limit{5};

  std::mutex mutex_;
  std::jthread thread_{[this](std::stop_token const& is_over) {
    std::unique_lock lock{mutex_};
    if (std::condition_variable_any{}.wait_for(lock, is_over, limit, [&] { return is_over.stop_requested(); })) return;
    write_stderr("raytrain: the ranks that are left have not come together within " + std::to_string(limit.count()) +
                 " s, and this process ends\n");
    ::_exit(unfinished_exit_code);
  }};
};

/// MPI for the life of this process, which begins with its first job.
class MpiLifetime {
 public:
  MpiLifetime() = default;
  MpiLifetime(MpiLifetime const&) = delete;
  auto operator=(MpiLifetime const&) -> MpiLifetime& = delete;
  /// MPI_Finalize waits for all ranks. If one is lost, or a training is not finished, this process ends with status 75
  /// instead.
  ~MpiLifetime() {
    if ((!has_job_ && !abandoned_) || generation_ != fork_generation()) return;
    BrokenPipeGuard const guard;
    std::fflush(nullptr);
    ::_exit(unfinished_exit_code);
  }

  /// Held by the one fit() that may be on at a time.
  class InUse {
   public:
    /// Errors: `invalid_call` while there is another one.
    explicit InUse(MpiLifetime& mpi) : mpi_{mpi} {
      if (!mpi.has_job_.exchange(true)) return;
      throw Error{Errc::invalid_call, "fit() on ranks", "another fit() of this process has not returned",
                  "call one after the other"};
    }
    InUse(InUse const&) = delete;
    auto operator=(InUse const&) -> InUse& = delete;
    ~InUse() { mpi_.has_job_ = false; }

    [[nodiscard]] auto mpi() const noexcept -> MpiLifetime& { return mpi_; }

   private:
    MpiLifetime& mpi_;
  };

  /// Waits for all ranks, whoever has begun MPI; not where one is lost. MPI is not used afterwards.
  void finalize() noexcept {
    if (!abandoned_) MPI_Finalize();
  }

  /// As `surviving_ranks` of the whole job: one of those that were left before may have lost ranks that not all of it
  /// know of.
  [[nodiscard]] static auto survivors_without(std::size_t lost) -> MPI_Comm {
    ShrinkWatchdog const watch;
    return surviving_ranks(MPI_COMM_WORLD, lost);
  }

  /// A rank is gone, or does not come.
  void abandon() noexcept { abandoned_ = true; }
  [[nodiscard]] auto is_abandoned() const noexcept -> bool { return abandoned_; }

 private:
  static auto watched_start() -> MpiSession {
    StartWatchdog const watch;
    return MpiSession{};
  }

  MpiSession mpi_ = watched_start();
  std::uint32_t generation_ = fork_generation();
  std::atomic<bool> has_job_ = false;
  std::atomic<bool> abandoned_ = false;
};

inline auto mpi_lifetime() -> MpiLifetime& {
  static MpiLifetime mpi;
  return mpi;
}

}  // namespace raytrain::detail
