// SPDX-License-Identifier: Apache-2.0
/// Including this header beside `main` gives a program `Launch::ranks`, and `Launch::mpirun`, which starts them: under
/// mpirun or srun, the workers of a training are the ranks of the MPI job. It may have a source file of its own, since
/// it takes long to compile.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include <raytrain/collective/mpi.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/launch/detail/mpi_lifetime.hpp>
#include <raytrain/launch/job_environment.hpp>
#include <raytrain/launch/rank_communicator.hpp>
#include <raytrain/launch/rank_job.hpp>

namespace raytrain {

/// The ranks of an MPI communicator as workers.
class MpiRanks final : public JobWorld {
 public:
  /// Errors: as `Rendezvous`.
  MpiRanks(detail::MpiLifetime& mpi, MPI_Comm communicator, MpiOptions options)
      : in_use_{mpi}, group_{std::make_shared<MpiGroup>(communicator, std::move(options))} {
    group = group_;
    collective = std::make_unique<MpiCollective>(group_);
  }
  /// The job ends last: another one must not begin beside this one's group.
  ~MpiRanks() override {
    collective.reset();
    group.reset();
  }

  [[nodiscard]] auto first_rank_of_host() const noexcept -> Rank override { return group_->first_rank_of_host(); }
  void abandon() noexcept override { in_use_.mpi().abandon(); }

 private:
  detail::MpiLifetime::InUse in_use_;
  std::shared_ptr<MpiGroup> group_;
};

namespace detail {

// Open MPI would end the process where srun tells it nothing, unless the program has begun MPI in a way of its own.
inline void refuse_singleton() {
  auto const job = job_environment();
  if (!job || job->size == WorldSize{1}) return;
#ifdef OPEN_MPI
  int initialized = 0;
  check_mpi(MPI_Initialized(&initialized), "MPI_Initialized");
  if (initialized == 0 && job->launcher == srun_name && !mpi_is_told_of_job()) throw alone_in_mpi(*job);
#endif
  (void)mpi_lifetime();
  int size = 0;
  check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
  if (size == 1) throw alone_in_mpi(*job);
}

inline auto mpi_rendezvous(JobRequest const& request, std::function<void(std::string const&)> on_warning)
    -> std::unique_ptr<JobWorld> {
  refuse_singleton();
  auto& mpi = mpi_lifetime();
  if (mpi.is_abandoned()) {
    throw Error{Errc::invalid_call, "fit() on ranks",
                "a rank of this job was lost, or has not come, in an earlier fit(): no other one can begin",
                "let the program end, and start it again"};
  }
  auto const communicator =
      request.lost_ranks.empty() ? rank_communicator : mpi.survivors_without(request.lost_ranks.size());
  MpiOptions options{.reduction = request.scaling.reduction_between_hosts(),
                     .limits = {.timeout = request.collective_timeout, .on_warning = std::move(on_warning)}};
  try {
    return std::make_unique<MpiRanks>(mpi, communicator, std::move(options));
  } catch (Error const& error) {
    if (error.code() == Errc::timed_out) mpi.abandon();
    throw;
  }
}

/// Whether this process is in MPI now.
inline auto is_begun() noexcept -> bool {
  int initialized = 0;
  int finalized = 0;
  return MPI_Initialized(&initialized) == MPI_SUCCESS && MPI_Finalized(&finalized) == MPI_SUCCESS && initialized != 0 &&
         finalized == 0;
}

inline void finalize_if_begun() noexcept {
  if (is_begun()) mpi_lifetime().finalize();
}

/// What including this header does.
inline bool const ranks_are_known =
    (rendezvous = &mpi_rendezvous, finalize_ranks = &finalize_if_begun, mpi_has_begun = &is_begun, true);

}  // namespace detail
}  // namespace raytrain
