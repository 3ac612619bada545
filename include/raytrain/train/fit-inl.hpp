// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <raytrain/checkpoint/run_directory.hpp>
#include <raytrain/config/scaling_config.hpp>
#include <raytrain/core/clock.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/standard_streams.hpp>
#include <raytrain/launch/exit_guard.hpp>
#include <raytrain/launch/job_environment.hpp>
#include <raytrain/launch/rank_job.hpp>
#include <raytrain/launch/threads.hpp>
#include <raytrain/train/fit.hpp>
#include <raytrain/train/program.hpp>
#include <raytrain/train/rank_run.hpp>
#include <raytrain/train/run_driver.hpp>
#include <raytrain/train/shared_settings.hpp>
#include <raytrain/version.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE auto runs_on_ranks(FitPlan const& plan) -> bool {
  auto const launch = plan.scaling.launch;
  if (launch != Launch::automatic) return launch == Launch::ranks;
  auto const environment = job_environment();
  return (environment && environment->size.value > 1) || plan.default_launch == Launch::ranks;
}

RAYTRAIN_INLINE auto join_job(FitPlan const& plan) -> std::unique_ptr<RankJob> {
  auto settings = shared_settings(plan.backend, plan.scaling, plan.run, plan.data, plan.datasets);
  settings.push_back({"TrainerConfig::backend", plan.backend_settings()});
  return open_rank_job_of_program()({plan.scaling, plan.run.collective_timeout, std::move(settings)});
}

RAYTRAIN_INLINE auto fit(FitPlan const& plan) -> Result {
  SystemClock clock;
  auto const called = clock.now();
  open_standard_streams();
  auto const job = runs_on_ranks(plan) ? join_job(plan) : nullptr;
  ExitGuard const exit_guard;
  auto const scaling = job == nullptr && plan.one_worker_on_threads ? in_one_thread(plan.scaling) : plan.scaling;
  auto const world = job != nullptr ? job->size() : scaling.world_size();

  // Whatever may throw once the job is joined happens where the other processes are told of it.
  auto const prepare = [&] {
    if (job != nullptr) validate_datasets(plan.datasets, plan.data, world);
    plan.start_backend(scaling);
  };
  auto const follow = [&] {
    RankFollower follower{
        *job,
        {.run = plan.run, .data = plan.data, .datasets = plan.datasets, .clock = clock, .prepare = prepare},
        plan.training};
    return follower.run();
  };
  // They outlive the launcher: workers that do not return use the driver until the process ends.
  std::optional<RunDirectory> directory;
  std::optional<RunDriver> driver;
  auto const lead = [&](Launcher& launcher) {
    prepare();
    directory.emplace(RunStart{.storage_path = plan.run.storage_path,
                               .name = plan.run.name.empty() ? program_name() : plan.run.name,
                               .program = program_name(),
                               .backend = std::string{plan.backend},
                               .fresh = plan.run.resume == Resume::fresh,
                               .world_size = world,
                               .seed = plan.run.seed,
                               .raytrain_version = std::string{version}});
    driver.emplace(launcher,
                   RunDriver::Plan{.run = plan.run,
                                   .directory = *directory,
                                   .callbacks = plan.callbacks,
                                   .backend = std::string{plan.backend},
                                   .data = plan.data,
                                   .datasets = plan.datasets,
                                   .clock = clock,
                                   .called = called,
                                   .ends_processes = job != nullptr || plan.run.on_hang == OnHang::exit_process});
    return driver->run(plan.training);
  };

  struct Shutdown {
    FitPlan const& plan;
    ~Shutdown() { plan.shut_backend_down(); }
  } const shutdown{plan};
  if (job != nullptr) {
    if (job->rank() != Rank{0}) return follow();
    return lead_ranks(*job, [&] { return lead(*job); });
  }
  ThreadLauncher launcher{scaling};
  return lead(launcher);
}

}  // namespace raytrain::detail
