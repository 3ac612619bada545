// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>

#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/launch/job_environment.hpp>
#include <raytrain/launch/worker_process.hpp>

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
  };
  for (auto const& known : launchers) {
    auto const* const rank = std::getenv(known.rank);
    auto const* const size = std::getenv(known.size);
    if (rank == nullptr || size == nullptr) continue;
    auto const number = std::strtoul(rank, nullptr, 10);
    auto const count = std::strtoul(size, nullptr, 10);
    if (count < 1 || count > UINT32_MAX || number >= count) continue;
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

RAYTRAIN_INLINE auto alone_in_mpi(JobEnvironment const& job) -> Error {
  return {Errc::invalid_config, "joining the job of " + job.launcher,
          "it has started " + std::to_string(job.size.value) + " processes, and to MPI this one is a job of its own",
          job.launcher == srun_name ? "write srun --mpi=pmix, or what srun --mpi=list has for the MPI of this program"
                                    : "start it by the mpirun of the MPI that it was built with"};
}

}  // namespace raytrain::detail
