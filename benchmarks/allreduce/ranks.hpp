// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>

#include <CLI/CLI.hpp>

#include "options.hpp"

/// Whether mpirun, srun or the like has started this process as one of a job.
inline auto is_rank_of_a_job() -> bool {
  for (auto const* const name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"}) {
    if (std::getenv(name) != nullptr) return true;
  }
  return false;
}

/// The program as one rank of its MPI job; the exit status. Without MPI it says what is missing.
auto run_as_rank(CLI::App& app, Options& options, int argc, char** argv) -> int;
