// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>

#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/launch/detail/rank_variables.hpp>
#include <raytrain/launch/job_environment.hpp>
#include <raytrain/launch/worker_process.hpp>

namespace raytrain::detail {

/// Whether RANK and WORLD_SIZE are those of a worker of raytrain's, or of a process that MPI knows.
RAYTRAIN_INLINE auto rank_is_explained(std::string const& rank, std::string const& size) -> bool {
  auto const* const marker = std::getenv(rank_marker);
  return (marker != nullptr && rank + '/' + size == marker) || mpi_is_told_of_job();
}

}  // namespace raytrain::detail

namespace raytrain {

RAYTRAIN_INLINE auto job_environment() -> std::optional<JobEnvironment> {
  struct Known {
    char const* rank;
    char const* size;
    char const* launcher;
  };
  constexpr Known launchers[] = {
      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "Open MPI's mpirun"},
      {"PMI_RANK", "PMI_SIZE", "an MPI launcher (PMI)"},  // before Slurm, by which it may have started its daemons
      {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", srun_name},
      {"RANK", "WORLD_SIZE", torchrun_name},
  };
  for (auto const& known : launchers) {
    auto const* const rank = std::getenv(known.rank);
    auto const* const size = std::getenv(known.size);
    if (rank == nullptr || size == nullptr) continue;
    auto const number = std::strtoul(rank, nullptr, 10);
    auto const count = std::strtoul(size, nullptr, 10);
    if (count < 1 || count > UINT32_MAX || number >= count) continue;
    if (known.launcher == torchrun_name && (count == 1 || detail::rank_is_explained(rank, size))) continue;
    return JobEnvironment{known.launcher, {static_cast<std::uint32_t>(number)}, {static_cast<std::uint32_t>(count)}};
  }
  return std::nullopt;
}

RAYTRAIN_INLINE auto is_first_of_job() -> bool {
  auto const job = job_environment();
  return !is_worker_process() && (!job || job->rank == Rank{0});
}

}  // namespace raytrain

namespace raytrain::detail {

RAYTRAIN_INLINE auto mpi_is_told_of_job() -> bool {
  for (auto const* const name : {"PMIX_RANK", "PMIX_NAMESPACE", "PMI_RANK", "PMI_FD"}) {
    if (std::getenv(name) != nullptr) return true;
  }
  return false;
}

RAYTRAIN_INLINE auto started_by_torchrun(JobEnvironment const& job) -> Error {
  return {
      Errc::invalid_config, "fit()",
      "by RANK and WORLD_SIZE this process is one of " + std::to_string(job.size.value) + " that " + job.launcher +
          " has started, and raytrain does not know how to join them: each would train by itself",
      "start the program by mpirun or srun; or once, with Launch::processes, which starts a process for each worker; "
      "or write Launch::threads to train in each process by itself; or unset RANK and WORLD_SIZE"};
}

RAYTRAIN_INLINE auto alone_in_mpi(JobEnvironment const& job) -> Error {
  return {Errc::invalid_config, "joining the job of " + job.launcher,
          "it has started " + std::to_string(job.size.value) + " processes, and to MPI this one is a job of its own",
          job.launcher == srun_name ? "write srun --mpi=pmix, or what srun --mpi=list has for the MPI of this program"
                                    : "start it by the mpirun of the MPI that it was built with"};
}

}  // namespace raytrain::detail
