// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>

namespace raytrain {

/// A job of several processes of which this one is a rank, as its launcher says through the environment.
struct JobEnvironment {
  std::string launcher;  ///< "Open MPI's mpirun", "Slurm's srun" ...
  Rank rank{};
  WorldSize size{1};
};

inline constexpr char const* srun_name = "Slurm's srun";
/// Who sets RANK and WORLD_SIZE alone: nobody then says how such processes find each other.
inline constexpr char const* torchrun_name = "torchrun, or a script like it,";

/// None for a program that was started by itself, and in a worker process of `Launch::processes`.
///
/// Source: variables that Open MPI, MPICH (PMI), Slurm and torchrun document for what they start. In a batch script
///         Slurm sets those of the allocation but not those of a step, so that a program there is no rank. RANK and
///         WORLD_SIZE that raytrain has set are those of a worker, whatever it starts.
[[nodiscard]] auto job_environment() -> std::optional<JobEnvironment>;

/// Whether this process is the one to print what `fit()` returns: rank 0 of its job, or of no job, and no worker's.
[[nodiscard]] auto is_first_of_job() -> bool;

}  // namespace raytrain

namespace raytrain::detail {

/// Whether whoever started this process has said to MPI where it finds the others: PMIx, PMI-1 or PMI-2.
[[nodiscard]] auto mpi_is_told_of_job() -> bool;

/// For a process that torchrun has started as one of several.
[[nodiscard]] auto started_by_torchrun(JobEnvironment const& job) -> Error;

/// For a process that is one of several and would be a job of its own to MPI, so that each would train by itself.
[[nodiscard]] auto alone_in_mpi(JobEnvironment const& job) -> Error;

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/launch/job_environment-inl.hpp>
#endif
