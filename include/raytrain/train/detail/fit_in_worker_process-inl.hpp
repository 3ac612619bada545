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
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include <raytrain/checkpoint/checkpoint_store.hpp>
#include <raytrain/checkpoint/run_directory.hpp>
#include <raytrain/config/scaling_config.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/file_descriptor.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/process.hpp>
#include <raytrain/launch/control_client.hpp>
#include <raytrain/launch/controller_connection.hpp>
#include <raytrain/launch/job.hpp>
#include <raytrain/launch/job_environment.hpp>
#include <raytrain/launch/launcher.hpp>
#include <raytrain/launch/process_end.hpp>
#include <raytrain/launch/process_job.hpp>
#include <raytrain/launch/rank_job.hpp>
#include <raytrain/launch/rank_start.hpp>
#include <raytrain/launch/run_token.hpp>
#include <raytrain/launch/worker_process.hpp>
#include <raytrain/train/detail/fit_in_worker_process.hpp>
#include <raytrain/train/detail/fit_plan.hpp>
#include <raytrain/train/detail/process_fit.hpp>
#include <raytrain/train/detail/rank_result.hpp>
#include <raytrain/train/detail/run_follower.hpp>
#include <raytrain/train/detail/run_identity.hpp>
#include <raytrain/train/result.hpp>

namespace raytrain::detail {

/// A process that a supervisor has started, as one of its workers.
struct SupervisedWorker {
  std::uint32_t fit = 1;              ///< As in `WorkerStart`.
  int results = -1;                   ///< Likewise.
  ControlClient::Options connection;  ///< To the supervisor.
  std::function<std::unique_ptr<Job>()> join{};
  bool launcher_ends_job = false;       ///< As in `RunFollower::Plan`.
  std::chrono::seconds linger{};        ///< After an error, before the process ends.
  std::function<void()> leave = [] {};  ///< When all has gone well, after the job is gone.
};

auto fit_under_supervisor(FitPlan const& plan, SupervisedWorker const& worker) -> Result;

/// To the supervisor.
[[nodiscard]] auto connection_to_supervisor(std::string const& token, Rank rank) -> ControlClient::Options;

/// In a worker process, which is not the one to ask for another number of workers: who does mostly means all processes
/// of the program's name.
void ignore_resize_signals(ScalingConfig const& scaling);

/// Unless the program has a handler for it.
void ignore_sigterm();

/// Of a run whose workers a supervisor starts.
[[nodiscard]] auto range_of(ScalingConfig const& scaling) -> WorkerRange;

RAYTRAIN_INLINE auto fit_in_worker_process(FitPlan const& plan, WorkerStart const& start) -> Result {
  ignore_resize_signals(plan.scaling);
  SupervisedWorker worker{
      .fit = start.fit, .results = start.results, .connection = connection_to_supervisor(start.token, start.rank)};
  worker.connection.descriptor = start.connection;
  worker.join = [&] {
    return std::make_unique<ProcessJob>(start, ProcessJob::Options{.scaling = plan.scaling,
                                                                   .collective_timeout = plan.run.collective_timeout,
                                                                   .settings = shared_settings(plan)});
  };
  return fit_under_supervisor(plan, worker);
}

RAYTRAIN_INLINE auto fit_in_supervised_rank(FitPlan const& plan, std::string const& start_file) -> Result {
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
  worker.join = [&] {
    return std::make_unique<RankJob>(JobRequest{plan.scaling, plan.run.collective_timeout, shared_settings(plan)},
                                     *environment);
  };
  worker.leave = [] { finalize_ranks(); };
  return fit_under_supervisor(plan, worker);
}

RAYTRAIN_INLINE auto fit_under_supervisor(FitPlan const& plan, SupervisedWorker const& worker) -> Result {
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
    auto const prepare = [&] {
      auto scaling = plan.scaling;
      scaling.num_workers = job->size().value;
      backend.start(scaling);
    };
    auto const connect = [&](ControllerConnection::Events events) {
      return std::make_unique<ControllerConnection>(*job, worker.connection, std::move(events));
    };
    RunFollower follower{*job,
                         {.fit = plan,
                          .workers = range_of(plan.scaling),
                          .controller = "the controller in the program that has started it",
                          .prepare = prepare,
                          .connect = connect,
                          .is_supervised = true,
                          .launcher_ends_job = worker.launcher_ends_job}};
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

RAYTRAIN_INLINE void ignore_resize_signals(ScalingConfig const& scaling) {
  if (!scaling.num_workers.is_elastic()) return;
  for (auto const signal : free_user_signals()) ::signal(signal, SIG_IGN);
}

RAYTRAIN_INLINE void ignore_sigterm() {
  struct sigaction action {};
  if (sigaction(SIGTERM, nullptr, &action) == 0 && action.sa_handler == SIG_DFL) ::signal(SIGTERM, SIG_IGN);
}

RAYTRAIN_INLINE auto range_of(ScalingConfig const& scaling) -> WorkerRange {
  if (!scaling.num_workers.is_elastic()) return {};
  auto const size = [](std::int64_t workers) { return WorldSize{static_cast<std::uint32_t>(workers)}; };
  auto const most = size(scaling.num_workers.most_or(1));
  return {.fewest = size(scaling.num_workers.fewest_or(1)), .most = most, .wanted = most};
}

}  // namespace raytrain::detail
