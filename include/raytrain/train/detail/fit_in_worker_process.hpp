// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <raytrain/launch/worker_process.hpp>
#include <raytrain/train/detail/fit_plan.hpp>
#include <raytrain/train/result.hpp>

// The ways of `fit()` in a process that a supervisor has started for one of its workers. They end the process, unless
// this is a call before the one that it was started for: then they give what that has given in the program.

namespace raytrain::detail {

/// Of `Launch::processes`.
auto fit_in_worker_process(FitPlan const& plan, WorkerStart const& start) -> Result;

/// Of `Launch::mpirun`; `start_file` is a `RankStart`'s.
auto fit_in_supervised_rank(FitPlan const& plan, std::string const& start_file) -> Result;

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/train/detail/fit_in_worker_process-inl.hpp>
#endif
