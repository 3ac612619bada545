// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <raytrain/checkpoint/run_directory.hpp>
#include <raytrain/collective/local.hpp>
#include <raytrain/config/run_config.hpp>
#include <raytrain/config/scaling_config.hpp>
#include <raytrain/core/clock.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/data/datasets.hpp>
#include <raytrain/launch/controller_connection.hpp>
#include <raytrain/launch/job_environment.hpp>
#include <raytrain/launch/launcher.hpp>
#include <raytrain/launch/process_end.hpp>
#include <raytrain/launch/process_launcher.hpp>
#include <raytrain/launch/rank_job.hpp>
#include <raytrain/launch/rank_leader.hpp>
#include <raytrain/launch/rank_supervisor.hpp>
#include <raytrain/launch/thread_launcher.hpp>
#include <raytrain/launch/worker_process.hpp>
#include <raytrain/message/message.hpp>
#include <raytrain/train/detail/fit_in_program.hpp>
#include <raytrain/train/detail/fit_plan.hpp>
#include <raytrain/train/detail/process_fit.hpp>
#include <raytrain/train/detail/rank_result.hpp>
#include <raytrain/train/detail/resume_point.hpp>
#include <raytrain/train/detail/run_driver.hpp>
#include <raytrain/train/detail/run_follower.hpp>
#include <raytrain/train/detail/run_identity.hpp>
#include <raytrain/train/result.hpp>
#include <raytrain/version.hpp>

namespace raytrain::detail {

/// Errors: `invalid_config` in a process that cannot start others.
void check_supervisor(Launch launch);

/// The side of one `fit()` that has the controller. It outlives the launcher: workers that do not return use it until
/// the process ends.
class ControllerSide {
 public:
  explicit ControllerSide(FitPlan const& plan) : plan_{plan}, called_{plan.clock.now()} {}

  /// `restart_backend` where this process has workers, before they are launched again.
  auto run(Launcher& launcher, bool ends_processes, std::function<void()> restart_backend) -> Result {
    // Before `RunDirectory`, which may delete a run: this may throw.
    if (plan_.run.resume == Resume::fresh) (void)verified_source(plan_.run.resume_from_checkpoint);
    directory_.emplace(RunStart{.storage_path = plan_.run.storage_path,
                                .name = plan_.run.name.empty() ? program_name() : plan_.run.name,
                                .program = program_name(),
                                .backend = std::string{plan_.backend},
                                .fresh = plan_.run.resume == Resume::fresh,
                                .world_size = launcher.size(),
                                .seed = plan_.run.seed,
                                .metadata = plan_.run.metadata,
                                .raytrain_version = std::string{version},
                                .make_store = plan_.run.checkpoint.store,
                                .begins_from = location_of(plan_.run.resume_from_checkpoint)});
    auto const start_timeout =
        launcher.replaces_processes() ? plan_.scaling.start_timeout : std::chrono::milliseconds{0};
    driver_.emplace(launcher, RunDriver::Plan{.fit = plan_,
                                              .directory = *directory_,
                                              .called = called_,
                                              .ends_processes = ends_processes,
                                              .start_timeout = start_timeout,
                                              .restart_backend = std::move(restart_backend)});
    return driver_->run();
  }

 private:
  FitPlan const& plan_;
  Clock::TimePoint called_;
  std::optional<RunDirectory> directory_;
  std::optional<RunDriver> driver_;
};

RAYTRAIN_INLINE auto fit_on_threads(FitPlan const& plan) -> Result {
  ControllerSide side{plan};
  ExitGuard const exit_guard;
  auto scaling = plan.one_worker_on_threads ? in_one_thread(plan.scaling) : plan.scaling;
  BackendInUse const backend{plan};
  ThreadLauncher launcher{scaling, scaling.collectives ? scaling.collectives : MakeCollectives{local_collectives}};
  auto const start_backend = [&] {
    scaling.num_workers = launcher.size().value;
    backend.start(scaling);
  };
  start_backend();
  return side.run(launcher, plan.run.on_hang == OnHang::exit_process, start_backend);
}

RAYTRAIN_INLINE auto fit_on_ranks(FitPlan const& plan) -> Result {
  ControllerSide side{plan};
  RankJob job{{plan.scaling, plan.run.collective_timeout, shared_settings(plan)}};
  ExitGuard const exit_guard;
  BackendInUse const backend{plan};
  // What this process may find wrong once the job is joined, the others are told of.
  auto const prepare = [&] {
    plan.scaling.check_virtual_shards(job.size());
    auto scaling = plan.scaling;
    scaling.num_workers = job.size().value;
    validate_datasets(plan.datasets, plan.data, scaling);
    backend.start(plan.scaling);
  };
  if (job.rank() != Rank{0}) {
    auto const connect = [&](ControllerConnection::Events events) {
      return std::make_unique<ControllerConnection>(job, std::move(events));
    };
    RunFollower follower{job,
                         {.fit = plan,
                          .controller = "the controller on rank 0 on " + job.process_of(Rank{0}).hostname,
                          .prepare = prepare,
                          .connect = connect}};
    return follower.run();
  }
  RankLeader leader{job};
  auto const end = [&](Ended ended) {
    leader.tell(std::move(ended));
    leader.end();
  };
  return fit_and_tell_others(end, [&] {
    prepare();
    return side.run(leader, true, [&] { backend.start(plan.scaling); });
  });
}

/// In the program that a person has started, which has no worker itself.
template <class Model>
auto fit_as_supervisor(FitPlan const& plan) -> Result {
  check_supervisor(plan.scaling.launch);
  ProcessFit const call;
  ControllerSide side{plan};
  std::optional<Model> launcher;
  ExitGuard const exit_guard;
  auto const end = [&](Ended ended) {
    call.keep(ended);
    if (!launcher) return;
    launcher->tell(std::move(ended));
    launcher->end();
  };
  return fit_and_tell_others(end, [&] {
    launcher.emplace(SupervisorOptions{.scaling = plan.scaling,
                                       .settings = shared_settings(plan),
                                       .fit = call.number(),
                                       .env = plan.run.env,
                                       .results = call.results()});
    return side.run(*launcher, true, [] {});
  });
}

RAYTRAIN_INLINE auto fit_with_processes(FitPlan const& plan) -> Result {
  return fit_as_supervisor<ProcessLauncher>(plan);
}

RAYTRAIN_INLINE auto fit_with_mpirun(FitPlan const& plan) -> Result { return fit_as_supervisor<RankSupervisor>(plan); }

RAYTRAIN_INLINE void check_supervisor(Launch launch) {
  auto const refuse = [&](std::string const& happened, std::string const& remedy) {
    throw Error{
        Errc::invalid_config, "ScalingConfig::launch",
        "Launch::" + std::string{launch == Launch::mpirun ? "mpirun" : "processes"} + " is asked for in " + happened,
        remedy};
  };
  auto const job = job_environment();
  if (job && job->size > WorldSize{1}) {
    refuse("one of " + std::to_string(job->size.value) + " processes that " + job->launcher +
               " has started, each of which would train by itself",
           "start the program by itself, or write Launch::ranks");
  }
  if (launch != Launch::mpirun) return;
  if (mpi_has_begun()) {
    refuse("a process that has called MPI_Init, in which mpirun starts no job",
           "call MPI_Init only where is_worker_process() is true, or leave it to raytrain");
  }
  if (mpi_is_told_of_job()) {
    refuse("a process that is a rank of an MPI job itself, in which mpirun starts no other",
           "start the program by itself, or write Launch::ranks");
  }
}

}  // namespace raytrain::detail
