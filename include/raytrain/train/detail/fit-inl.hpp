// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <signal.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include <raytrain/checkpoint/checkpoint_store.hpp>
#include <raytrain/checkpoint/run_directory.hpp>
#include <raytrain/collective/local.hpp>
#include <raytrain/config/scaling_config.hpp>
#include <raytrain/core/clock.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/file_descriptor.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/process.hpp>
#include <raytrain/data/datasets.hpp>
#include <raytrain/launch/control_client.hpp>
#include <raytrain/launch/job.hpp>
#include <raytrain/launch/job_environment.hpp>
#include <raytrain/launch/launcher.hpp>
#include <raytrain/launch/placement_options.hpp>
#include <raytrain/launch/process_end.hpp>
#include <raytrain/launch/process_job.hpp>
#include <raytrain/launch/process_launcher.hpp>
#include <raytrain/launch/rank_job.hpp>
#include <raytrain/launch/rank_leader.hpp>
#include <raytrain/launch/rank_seat.hpp>
#include <raytrain/launch/rank_start.hpp>
#include <raytrain/launch/rank_supervisor.hpp>
#include <raytrain/launch/run_token.hpp>
#include <raytrain/launch/thread_launcher.hpp>
#include <raytrain/launch/worker_process.hpp>
#include <raytrain/train/detail/fit.hpp>
#include <raytrain/train/detail/process_fit.hpp>
#include <raytrain/train/detail/rank_follower.hpp>
#include <raytrain/train/detail/rank_result.hpp>
#include <raytrain/train/detail/resume_point.hpp>
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

  /// `restart_backend` where this process has workers, before they are launched again.
  auto run(Launcher& launcher, bool ends_processes, std::function<void()> restart_backend) -> Result {
    // Before what may delete a run.
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
    driver_.emplace(launcher,
                    RunDriver::Plan{.run = plan_.run,
                                    .directory = *directory_,
                                    .callbacks = plan_.callbacks,
                                    .backend = std::string{plan_.backend},
                                    .data = plan_.data,
                                    .datasets = plan_.datasets,
                                    .preprocessor = plan_.preprocessor,
                                    .virtual_shards = static_cast<std::uint32_t>(plan_.scaling.virtual_shards),
                                    .clock = clock_,
                                    .called = called_,
                                    .ends_processes = ends_processes,
                                    .start_timeout = launcher.replaces_processes() ? plan_.scaling.start_timeout
                                                                                   : std::chrono::milliseconds{0},
                                    .restart_backend = std::move(restart_backend),
                                    .resize_requests = plan_.resize_requests});
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

RAYTRAIN_INLINE void restart_backend(FitPlan const& plan, ScalingConfig const& scaling) {
  plan.shut_backend_down();
  plan.start_backend(scaling);
}

/// Of a process whose controller lives in another one.
RAYTRAIN_INLINE auto follower_plan(FitPlan const& plan, Clock& clock) -> RankFollower::Plan {
  return {.run = plan.run,
          .data = plan.data,
          .datasets = plan.datasets,
          .preprocessor = plan.preprocessor,
          .workers = {},
          .virtual_shards = static_cast<std::uint32_t>(plan.scaling.virtual_shards),
          .clock = clock,
          .controller = "the controller in the program that has started it",
          .prepare = {},
          .connect = {},
          .is_supervised = false,
          .launcher_ends_job = false};
}

RAYTRAIN_INLINE auto fit_on_threads(FitPlan const& plan, Clock& clock) -> Result {
  Lead lead{plan, clock};
  ExitGuard const exit_guard;
  auto scaling = plan.one_worker_on_threads ? in_one_thread(plan.scaling) : plan.scaling;
  BackendInUse const backend{plan};
  ThreadLauncher launcher{scaling, local_collectives};
  scaling.num_workers = launcher.size().value;
  plan.start_backend(scaling);
  return lead.run(launcher, plan.run.on_hang == OnHang::exit_process, [&] {
    scaling.num_workers = launcher.size().value;
    restart_backend(plan, scaling);
  });
}

RAYTRAIN_INLINE auto fit_on_ranks(FitPlan const& plan, Clock& clock) -> Result {
  Lead lead{plan, clock};
  RankJob job{job_request(plan)};
  ExitGuard const exit_guard;
  BackendInUse const backend{plan};
  // What this process may find wrong once the job is joined, the others are told of.
  auto const prepare = [&] {
    plan.scaling.check_virtual_shards(job.size());
    validate_datasets(plan.datasets, plan.data, job.size(), plan.scaling.virtual_shards);
    restart_backend(plan, plan.scaling);
  };
  if (job.rank() != Rank{0}) {
    auto following = follower_plan(plan, clock);
    following.controller = "the controller on rank 0 on " + job.process_of(Rank{0}).hostname;
    following.prepare = prepare;
    following.connect = [&](RankSeat::Events events) { return std::make_unique<RankSeat>(job, std::move(events)); };
    RankFollower follower{job, std::move(following), plan.training};
    return follower.run();
  }
  RankLeader leader{job};
  auto const end = [&](Ended ended) {
    leader.tell(std::move(ended));
    leader.end();
  };
  return fit_for_others(end, [&] {
    prepare();
    return lead.run(leader, true, [&] { restart_backend(plan, plan.scaling); });
  });
}

/// Errors: `invalid_config` in a process that cannot start others.
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

/// In the program that a person has started, which has no worker itself.
template <class Model>
auto fit_as_supervisor(FitPlan const& plan, Clock& clock) -> Result {
  check_supervisor(plan.scaling.launch);
  ProcessFit const call;
  Lead lead{plan, clock};
  std::optional<Model> launcher;
  ExitGuard const exit_guard;
  auto const end = [&](Ended ended) {
    call.keep(ended);
    if (!launcher) return;
    launcher->tell(std::move(ended));
    launcher->end();
  };
  return fit_for_others(end, [&] {
    launcher.emplace(SupervisorOptions{.scaling = plan.scaling,
                                       .settings = shared_settings(plan),
                                       .fit = call.number(),
                                       .env = plan.run.env,
                                       .results = call.results()});
    return lead.run(*launcher, true, [] {});
  });
}

/// Of a run whose workers a supervisor starts.
RAYTRAIN_INLINE auto range_of(ScalingConfig const& scaling) -> WorkerRange {
  if (!scaling.num_workers.is_elastic()) return {};
  auto const size = [](std::int64_t workers) { return WorldSize{static_cast<std::uint32_t>(workers)}; };
  auto const most = size(scaling.num_workers.most_or(1));
  return {.fewest = size(scaling.num_workers.fewest_or(1)), .most = most, .wanted = most};
}

/// A process that a supervisor has started, as one of its workers.
struct SupervisedWorker {
  std::uint32_t fit = 1;              ///< As in `WorkerStart`.
  int results = -1;                   ///< Likewise.
  ControlClient::Options connection;  ///< To the supervisor.
  std::function<std::unique_ptr<Job>()> join{};
  bool launcher_ends_job = false;       ///< As in `RankFollower::Plan`.
  std::chrono::seconds linger{};        ///< After an error, before the process ends.
  std::function<void()> leave = [] {};  ///< When all has gone well, after the job is gone.
};

/// Unless the program has a handler for it.
RAYTRAIN_INLINE void ignore_sigterm() {
  struct sigaction action {};
  if (sigaction(SIGTERM, nullptr, &action) == 0 && action.sa_handler == SIG_DFL) ::signal(SIGTERM, SIG_IGN);
}

/// Ends the process, unless the call of `fit()` is one before that which it was started for.
RAYTRAIN_INLINE auto fit_under_supervisor(FitPlan const& plan, SupervisedWorker const& worker, Clock& clock) -> Result {
  ProcessFit const call;
  if (auto ended = call.result(worker.fit, worker.results)) {
    std::shared_ptr<CheckpointStore> store;
    if (!ended->path.empty()) store = open_store(plan.run.checkpoint.store, ended->path);
    return result_of(*ended, store.get());
  }
  if (!plan.run.handle_signals) ignore_sigterm();
  auto status = unfinished_exit_code;
  try {
    auto const job = worker.join();
    ExitGuard const exit_guard;
    BackendInUse const backend{plan};
    auto following = follower_plan(plan, clock);
    following.prepare = [&] {
      auto scaling = plan.scaling;
      scaling.num_workers = job->size().value;
      restart_backend(plan, scaling);
    };
    following.connect = [&](RankSeat::Events events) {
      return std::make_unique<RankSeat>(*job, worker.connection, std::move(events));
    };
    following.workers = range_of(plan.scaling);
    following.is_supervised = true;
    following.launcher_ends_job = worker.launcher_ends_job;
    RankFollower follower{*job, std::move(following), plan.training};
    follower.run_to_end();
    status = EXIT_SUCCESS;
  } catch (std::exception const& error) {
    write_stderr("raytrain: the worker process of rank " + std::to_string(worker.connection.rank.value) +
                 " ends: " + error.what() + '\n');
  }
  flush_files(std::chrono::seconds{1});
  if (status == EXIT_SUCCESS) {
    worker.leave();
  } else {
    std::this_thread::sleep_for(worker.linger);
  }
  end_process(status);
}

RAYTRAIN_INLINE auto connection_to_supervisor(std::string const& token, Rank rank) -> ControlClient::Options {
  ControlClient::Options options{.token = RunToken::from_hex(token)};
  options.rank = rank;
  options.heartbeat_interval = WorkerStart::heartbeat_interval;
  return options;
}

/// In a worker process, which is not the one to ask for another number of workers: who does mostly means all processes
/// of the program's name.
RAYTRAIN_INLINE void ignore_resize_signals(ScalingConfig const& scaling) {
  if (!scaling.num_workers.is_elastic()) return;
  for (auto const signal : free_user_signals()) ::signal(signal, SIG_IGN);
}

RAYTRAIN_INLINE auto fit_in_worker_process(FitPlan const& plan, WorkerStart const& start, Clock& clock) -> Result {
  ignore_resize_signals(plan.scaling);
  SupervisedWorker worker{
      .fit = start.fit, .results = start.results, .connection = connection_to_supervisor(start.token, start.rank)};
  worker.connection.descriptor = start.connection;
  worker.join = [&] {
    return std::make_unique<ProcessJob>(start, ProcessJob::Options{.scaling = plan.scaling,
                                                                   .collective_timeout = plan.run.collective_timeout,
                                                                   .settings = shared_settings(plan)});
  };
  return fit_under_supervisor(plan, worker, clock);
}

RAYTRAIN_INLINE auto fit_in_supervised_rank(FitPlan const& plan, std::string const& start_file, Clock& clock)
    -> Result {
  auto const start = RankStart::read(start_file);
  auto const environment = job_environment();
  if (!environment) {
    throw Error{Errc::invalid_config, "joining the job of a supervisor",
                "the launcher of this process says nothing of a job in its environment",
                "let ScalingConfig::job_command start mpirun of Open MPI or MPICH, or srun"};
  }
  FileDescriptor const results{start.results.empty() ? -1 : ::open(start.results.c_str(), O_RDONLY | O_CLOEXEC)};
  if (!start.results.empty() && !results.is_open()) {
    throw Error{
        Errc::io, "joining the job of a supervisor",
        "'" + start.results + "' cannot be opened: " + std::error_code{errno, std::generic_category()}.message(),
        "let RunConfig::storage_path name a folder that all hosts share"};
  }
  SupervisedWorker worker{.fit = start.fit,
                          .results = results.get(),
                          .connection = connection_to_supervisor(start.token, environment->rank)};
  worker.connection.addresses = start.addresses;
  // The supervisor is asked to stop. And MPI may write to a rank that is lost.
  for (auto const ignored : {SIGINT, SIGHUP, SIGPIPE}) ::signal(ignored, SIG_IGN);
  // Slurm ends a job for the sake of one rank by SIGKILL alone.
  worker.launcher_ends_job = environment->launcher != srun_name;
  ignore_resize_signals(plan.scaling);
  // With its supervisor's end the launcher of the job is told to end. Open MPI's crashes if ranks end by themselves
  // meanwhile.
  worker.linger = std::chrono::seconds{2};
  worker.join = [&] { return std::make_unique<RankJob>(job_request(plan), *environment); };
  worker.leave = [] { finalize_ranks(); };
  return fit_under_supervisor(plan, worker, clock);
}

/// Errors: `invalid_config` where raytrain starts no process that could have variables of its own.
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

RAYTRAIN_INLINE auto fit_here(FitPlan const& plan, Clock& clock) -> Result {
  auto const launch = plan.scaling.launch;
  if (launch == Launch::mpirun) (void)rendezvous_of_program();
  if (launch == Launch::processes || launch == Launch::mpirun) {
    if (auto const& start = worker_start()) return fit_in_worker_process(plan, *start, clock);
    if (auto const& start_file = rank_start_file()) return fit_in_supervised_rank(plan, *start_file, clock);
    if (launch == Launch::mpirun) return fit_as_supervisor<RankSupervisor>(plan, clock);
    check_placement(plan.scaling, false);
    return fit_as_supervisor<ProcessLauncher>(plan, clock);
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
  return on_ranks ? fit_on_ranks(plan, clock) : fit_on_threads(plan, clock);
}

RAYTRAIN_INLINE auto fit(FitPlan const& plan) -> Result {
  open_standard_streams();
  SystemClock clock;
  auto const is_first_in_worker = is_worker_process() && !ProcessFit::is_running();
  try {
    return fit_here(plan, clock);
  } catch (std::exception const& error) {
    // The main function of such a process mostly prints nothing, since the program that has started it does.
    if (is_first_in_worker) write_stderr(std::string{"raytrain: a worker process cannot join: "} + error.what() + '\n');
    throw;
  }
}

}  // namespace raytrain::detail
