// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include <raytrain/checkpoint/run_directory.hpp>
#include <raytrain/collective/local.hpp>
#include <raytrain/config/scaling_config.hpp>
#include <raytrain/core/clock.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/process.hpp>
#include <raytrain/data/datasets.hpp>
#include <raytrain/launch/job_environment.hpp>
#include <raytrain/launch/launcher.hpp>
#include <raytrain/launch/process_end.hpp>
#include <raytrain/launch/rank_job.hpp>
#include <raytrain/launch/rank_leader.hpp>
#include <raytrain/launch/thread_launcher.hpp>
#include <raytrain/train/detail/fit.hpp>
#include <raytrain/train/detail/rank_follower.hpp>
#include <raytrain/train/detail/rank_result.hpp>
#include <raytrain/train/detail/run_driver.hpp>
#include <raytrain/train/detail/run_identity.hpp>
#include <raytrain/train/result.hpp>
#include <raytrain/version.hpp>

namespace raytrain::detail {

/// The backend of one `fit()`: shut down at its end, if it was made.
struct BackendInUse {
  FitPlan const& plan;
  explicit BackendInUse(FitPlan const& of) : plan{of} {}
  BackendInUse(BackendInUse const&) = delete;
  auto operator=(BackendInUse const&) -> BackendInUse& = delete;
  ~BackendInUse() { plan.shut_backend_down(); }
};

/// The side of one `fit()` that has the controller. It outlives the launcher: workers that do not return use it until
/// the process ends.
class Lead {
 public:
  Lead(FitPlan const& plan, Clock& clock) : plan_{plan}, clock_{clock}, called_{clock.now()} {}

  /// `scaling`: what the backend is started with.
  auto run(Launcher& launcher, ScalingConfig const& scaling, bool ends_processes) -> Result {
    directory_.emplace(RunStart{.storage_path = plan_.run.storage_path,
                                .name = plan_.run.name.empty() ? program_name() : plan_.run.name,
                                .program = program_name(),
                                .backend = std::string{plan_.backend},
                                .fresh = plan_.run.resume == Resume::fresh,
                                .world_size = launcher.size(),
                                .seed = plan_.run.seed,
                                .raytrain_version = std::string{version},
                                .make_store = plan_.run.checkpoint.store});
    driver_.emplace(launcher, RunDriver::Plan{.run = plan_.run,
                                              .directory = *directory_,
                                              .callbacks = plan_.callbacks,
                                              .backend = std::string{plan_.backend},
                                              .data = plan_.data,
                                              .datasets = plan_.datasets,
                                              .clock = clock_,
                                              .called = called_,
                                              .ends_processes = ends_processes,
                                              .restart_backend = [this, scaling] {
                                                plan_.shut_backend_down();
                                                plan_.start_backend(scaling);
                                              }});
    return driver_->run(plan_.training);
  }

 private:
  FitPlan const& plan_;
  Clock& clock_;
  Clock::TimePoint called_;
  std::optional<RunDirectory> directory_;
  std::optional<RunDriver> driver_;
};

RAYTRAIN_INLINE auto runs_on_ranks(FitPlan const& plan) -> bool {
  auto const launch = plan.scaling.launch;
  if (launch != Launch::automatic) return launch == Launch::ranks;
  auto const environment = job_environment();
  return (environment && environment->size.value > 1) || plan.default_launch == Launch::ranks;
}

RAYTRAIN_INLINE auto job_request(FitPlan const& plan) -> JobRequest {
  return {plan.scaling, plan.run.collective_timeout, shared_settings(plan)};
}

RAYTRAIN_INLINE auto fit_on_threads(FitPlan const& plan, Clock& clock) -> Result {
  Lead lead{plan, clock};
  ExitGuard const exit_guard;
  auto const scaling = plan.one_worker_on_threads ? in_one_thread(plan.scaling) : plan.scaling;
  BackendInUse const backend{plan};
  ThreadLauncher launcher{scaling, local_collectives};
  plan.start_backend(scaling);
  return lead.run(launcher, scaling, plan.run.on_hang == OnHang::exit_process);
}

RAYTRAIN_INLINE auto fit_on_ranks(FitPlan const& plan, Clock& clock) -> Result {
  Lead lead{plan, clock};
  RankJob job{job_request(plan)};
  ExitGuard const exit_guard;
  BackendInUse const backend{plan};
  // What this process may find wrong once the job is joined, the others are told of.
  auto const prepare = [&] {
    validate_datasets(plan.datasets, plan.data, job.size());
    plan.shut_backend_down();  // of the attempt before
    plan.start_backend(plan.scaling);
  };
  if (job.rank() != Rank{0}) {
    RankFollower follower{
        job,
        {.run = plan.run, .data = plan.data, .datasets = plan.datasets, .clock = clock, .prepare = prepare},
        plan.training};
    return follower.run();
  }
  RankLeader leader{job};
  return lead_ranks(leader, [&] {
    prepare();
    return lead.run(leader, plan.scaling, true);
  });
}

RAYTRAIN_INLINE auto fit(FitPlan const& plan) -> Result {
  open_standard_streams();
  SystemClock clock;
  return runs_on_ranks(plan) ? fit_on_ranks(plan, clock) : fit_on_threads(plan, clock);
}

}  // namespace raytrain::detail
