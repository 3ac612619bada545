// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>

#include <raytrain/collective/mpi_session.hpp>
#include <raytrain/core/broken_pipe_guard.hpp>
#include <raytrain/core/fork_generation.hpp>
#include <raytrain/launch/process_end.hpp>

namespace raytrain::detail {

/// MPI for the life of this process, which begins with its first job.
class RankSession {
 public:
  RankSession() = default;
  RankSession(RankSession const&) = delete;
  auto operator=(RankSession const&) -> RankSession& = delete;
  /// MPI_Finalize waits for all ranks. If one is lost, or a training is not finished, this process ends with status 75
  /// instead.
  ~RankSession() {
    if ((jobs_ == 0 && !abandoned_) || generation_ != fork_generation()) return;
    BrokenPipeGuard const guard;
    std::fflush(nullptr);
    ::_exit(unfinished_exit_code);
  }

  void begin_job() noexcept { ++jobs_; }
  void end_job() noexcept { --jobs_; }

  /// A rank is gone, or does not come.
  void abandon() noexcept { abandoned_ = true; }
  [[nodiscard]] auto is_abandoned() const noexcept -> bool { return abandoned_; }

 private:
  MpiSession mpi_;
  std::uint32_t generation_ = fork_generation();
  std::atomic<int> jobs_ = 0;
  std::atomic<bool> abandoned_ = false;
};

inline auto rank_session() -> RankSession& {
  static RankSession session;
  return session;
}

}  // namespace raytrain::detail
