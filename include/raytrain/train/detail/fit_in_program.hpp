// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <raytrain/train/detail/fit_plan.hpp>
#include <raytrain/train/result.hpp>

// The ways of `fit()` in a process that raytrain has not started. Errors: as `Trainer::fit`.

namespace raytrain::detail {

/// The workers are threads of this process.
auto fit_on_threads(FitPlan const& plan) -> Result;

/// This process is a rank of a job, and has one worker; rank 0 has the controller, too.
auto fit_on_ranks(FitPlan const& plan) -> Result;

/// This process is the supervisor of workers of `Launch::processes`, and has none itself.
auto fit_with_processes(FitPlan const& plan) -> Result;

/// Likewise, of `Launch::mpirun`.
auto fit_with_mpirun(FitPlan const& plan) -> Result;

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/train/detail/fit_in_program-inl.hpp>
#endif
