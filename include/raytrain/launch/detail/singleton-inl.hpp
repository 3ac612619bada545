// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <string>

#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/launch/detail/singleton.hpp>
#include <raytrain/launch/job_environment.hpp>

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
