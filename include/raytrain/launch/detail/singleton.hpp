// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <raytrain/core/error.hpp>
#include <raytrain/launch/job_environment.hpp>

namespace raytrain::detail {

/// Whether whoever started this process has said to MPI where it finds the others: PMIx, PMI-1 or PMI-2.
[[nodiscard]] auto mpi_is_told_of_job() -> bool;

/// For a process that is one of several and would be a job of its own to MPI, so that each would train by itself.
[[nodiscard]] auto alone_in_mpi(JobEnvironment const& job) -> Error;

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/launch/detail/singleton-inl.hpp>
#endif
