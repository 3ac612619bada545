// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <string>

#include <raytrain/config/run_config.hpp>
#include <raytrain/config/scaling_config.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/process.hpp>
#include <raytrain/launch/job_environment.hpp>
#include <raytrain/launch/process_end.hpp>
#include <raytrain/launch/rank_job.hpp>
#include <raytrain/launch/rank_start.hpp>
#include <raytrain/launch/worker_process.hpp>
#include <raytrain/train/detail/fit.hpp>
#include <raytrain/train/detail/fit_in_program.hpp>
#include <raytrain/train/detail/fit_in_worker_process.hpp>
#include <raytrain/train/detail/fit_plan.hpp>
#include <raytrain/train/detail/process_fit.hpp>
#include <raytrain/train/result.hpp>

namespace raytrain::detail {

auto fit_here(FitPlan const& plan) -> Result;

[[nodiscard]] auto runs_on_ranks(FitPlan const& plan) -> bool;

/// Errors: `invalid_config` for collectives of the program's own where workers are no threads.
void check_collectives(FitPlan const& plan);

/// Errors: `invalid_config` where raytrain starts no process that could have variables of its own.
void check_env(RunConfig const& run, bool on_ranks);

/// Errors: `invalid_config` where raytrain starts no job, and workers are not placed as they should be.
void check_placement(ScalingConfig const& scaling, bool on_ranks);

RAYTRAIN_INLINE auto fit(FitPlan const& plan) -> Result {
  open_standard_streams();
  auto const is_first_in_worker = is_worker_process() && !ProcessFit::is_running();
  try {
    return fit_here(plan);
  } catch (std::exception const& error) {
    // The main function of such a process mostly prints nothing, since the program that has started it does.
    if (is_first_in_worker) write_stderr(std::string{"raytrain: a worker process cannot join: "} + error.what() + '\n');
    throw;
  }
}

/// Goes the way of this process: that of the program that somebody has started, of a rank of its job, or of a process
/// that raytrain has started for a worker.
RAYTRAIN_INLINE auto fit_here(FitPlan const& plan) -> Result {
  auto const launch = plan.scaling.launch;
  check_collectives(plan);
  if (launch == Launch::mpirun) (void)rendezvous_of_program();
  if (launch == Launch::processes || launch == Launch::mpirun) {
    if (auto const& start = worker_start()) return fit_in_worker_process(plan, *start);
    if (auto const& start_file = rank_start_file()) return fit_in_supervised_rank(plan, *start_file);
    if (launch == Launch::mpirun) return fit_with_mpirun(plan);
    check_placement(plan.scaling, false);
    return fit_with_processes(plan);
  }
  if (is_worker_process() && !ProcessFit::is_running()) {
    throw Error{Errc::invalid_call, "fit()",
                "this process was started for a worker of another fit(), with Launch::processes or Launch::mpirun, and "
                "would train here what the program itself trains",
                "call fit() here only where is_worker_process() is false"};
  }
  auto const on_ranks = runs_on_ranks(plan);
  check_env(plan.run, on_ranks);
  check_placement(plan.scaling, on_ranks);
  return on_ranks ? fit_on_ranks(plan) : fit_on_threads(plan);
}

RAYTRAIN_INLINE auto runs_on_ranks(FitPlan const& plan) -> bool {
  auto const launch = plan.scaling.launch;
  if (launch != Launch::automatic) return launch == Launch::ranks;
  auto const environment = job_environment();
  return (environment && environment->size.value > 1) || plan.default_launch == Launch::ranks;
}

RAYTRAIN_INLINE void check_collectives(FitPlan const& plan) {
  auto const launch = plan.scaling.launch;
  auto const in_processes = launch == Launch::processes || launch == Launch::mpirun;
  if (!plan.scaling.collectives || !(in_processes || runs_on_ranks(plan))) return;
  throw Error{Errc::invalid_config, "ScalingConfig::collectives",
              std::string{"makes collectives of threads, and workers are "} +
                  (launch == Launch::processes ? "processes" : "MPI ranks"),
              "write .launch = Launch::threads, or leave it out"};
}

RAYTRAIN_INLINE void check_env(RunConfig const& run, bool on_ranks) {
  if (run.env.empty()) return;
  auto const& name = run.env.begin()->first;
  throw Error{Errc::invalid_config, "RunConfig::env",
              "sets '" + name + "' for processes that raytrain starts, and " +
                  (on_ranks ? "the ranks of this job were started by another program"
                            : "threads have the environment of their program, which cannot be changed while they run"),
              (on_ranks ? "hand it on by what starts the job: mpirun -x " + name + "=..., srun --export=ALL," + name +
                              "=...; or write Launch::mpirun"
                        : "set it in the environment in which the program is started, " + name +
                              "=... ./program; or write Launch::processes")};
}

RAYTRAIN_INLINE void check_placement(ScalingConfig const& scaling, bool on_ranks) {
  auto const strategy = scaling.placement_strategy;
  if (strategy == PlacementStrategy::automatic || (strategy == PlacementStrategy::pack && !on_ranks)) return;
  throw Error{
      Errc::invalid_config, "ScalingConfig::placement_strategy",
      on_ranks ? "what has started this job has placed its ranks" : "is spread, and all workers are on this host",
      on_ranks
          ? "give it an option of its own, such as --map-by node for Open MPI's mpirun or --distribution=cyclic for "
            "srun; or write Launch::mpirun"
          : "write Launch::mpirun to have them on several"};
}

}  // namespace raytrain::detail
