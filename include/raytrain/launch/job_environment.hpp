// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include <raytrain/core/rank.hpp>

namespace raytrain {

/// A job of several processes of which this one is a rank, as its launcher says through the environment.
struct JobEnvironment {
  std::string launcher;  ///< "Open MPI's mpirun", "Slurm's srun" ...
  Rank rank{};
  WorldSize size{1};
};

inline constexpr char const* srun_name = "Slurm's srun";

/// None for a program that was started by itself.
///
/// Source: variables that Open MPI, MPICH (PMI) and Slurm document for what they start. In a batch script Slurm sets
///         those of the allocation but not those of a step, so that a program there is no rank.
[[nodiscard]] auto job_environment() -> std::optional<JobEnvironment>;

/// Whether this process is the one to print what `fit()` returns: rank 0 of its job, or of no job.
[[nodiscard]] auto is_first_of_job() -> bool;

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/launch/job_environment-inl.hpp>
#endif
