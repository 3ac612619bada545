// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include <raytrain/backend/backend.hpp>
#include <raytrain/callback/json_lines.hpp>
#include <raytrain/checkpoint/run_directory.hpp>
#include <raytrain/config/data_config.hpp>
#include <raytrain/config/run_config.hpp>
#include <raytrain/config/scaling_config.hpp>
#include <raytrain/core/clock.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/standard_streams.hpp>
#include <raytrain/data/datasets.hpp>
#include <raytrain/launch/exit_guard.hpp>
#include <raytrain/launch/job_environment.hpp>
#include <raytrain/launch/rank_job.hpp>
#include <raytrain/launch/threads.hpp>
#include <raytrain/train/callback.hpp>
#include <raytrain/train/config_text.hpp>
#include <raytrain/train/program.hpp>
#include <raytrain/train/rank_run.hpp>
#include <raytrain/train/result.hpp>
#include <raytrain/train/run_driver.hpp>
#include <raytrain/train/shared_settings.hpp>
#include <raytrain/train/training_failed.hpp>
#include <raytrain/train/worker_runner.hpp>
#include <raytrain/version.hpp>

namespace raytrain {

/// Everything about a training but its function. Name what you change.
template <class B>
struct TrainerConfig {
  ScalingConfig scaling{};
  RunConfig run{};
  DataConfig data{};
  Datasets datasets{};
  Callbacks callbacks{};  ///< Called in this order.
  typename B::Config backend{};
};

/// What a worker runs: callable on any thread with these arguments, and without a result.
template <class F, class... Args>
concept TrainFunction = std::invocable<F const&, Args...> && std::is_void_v<std::invoke_result_t<F const&, Args...>>;

namespace detail {

/// What the ready-made training of a backend takes: of one that has none something that nobody can give.
template <class B>
struct ReadyMade {
  class Params {
    Params() = default;
    void validate() const {}
  };
};
template <class B>
requires requires { typename B::Params; }
struct ReadyMade<B> {
  using Params = typename B::Params;
};

}  // namespace detail

/// Trains: runs one function on every worker, and keeps its reports and checkpoints.
///
/// Threads: one at a time; on ranks one `fit()` of a process at a time, whichever trainer's.
///
/// `fit()` may be called again; it then goes on with the run as `RunConfig::resume` says.
template <class B>
class Trainer {
  static_assert(Backend<B>, "raytrain: B does not meet the concept raytrain::Backend; see what is missing below");

 public:
  using Context = typename B::Context;

  /// `train`: void(Context&), called on every worker's thread, at the same time; copied here once.
  ///
  /// Errors: `invalid_config` and `invalid_data`, before anything is created or started.
  template <class F>
  explicit Trainer(F train, TrainerConfig<B> config = {}) : config_{std::move(config)} {
    static_assert(TrainFunction<F, Context&>,
                  "raytrain: the training function is void(Context&), with the backend's Context");
    if constexpr (TrainFunction<F, Context&>) train_ = std::move(train);
    validate();
  }

  /// `train`: void(Context&, Params const&); every worker is given these `params`.
  template <class F, class Params>
  Trainer(F train, Params params, TrainerConfig<B> config = {}) : config_{std::move(config)} {
    static_assert(TrainFunction<F, Context&, Params const&>,
                  "raytrain: the training function is void(Context&, Params const&), with the backend's Context");
    if constexpr (TrainFunction<F, Context&, Params const&>) {
      train_ = [train = std::move(train), params = std::move(params)](Context& context) { train(context, params); };
    }
    validate();
  }

  /// The backend's ready-made training with these parameters; for a backend that has one, as `XGBoostBackend`.
  explicit Trainer(typename detail::ReadyMade<B>::Params params, TrainerConfig<B> config = {})
      : config_{std::move(config)} {
    params.validate();
    train_ = [params = std::move(params)](Context& context) { B::train(context, params); };
    validate();
  }

  /// Trains until every worker's function has returned, and gives what was reached.
  ///
  /// A stop (a signal, a callback) ends it early with `Result::state` `aborted`; the next call goes on.
  /// Errors: `TrainingFailed` when a worker, a critical callback or the storage failed. Before any worker starts:
  /// `invalid_config`; `invalid_call` when another process trains in the folder; `foreign_run`, `corrupt_checkpoint`
  /// and `io` from the folder; `worker_failed` when one cannot be started. On ranks also as `OpenRankJob`, and
  /// `worker_failed` when rank 0 is lost.
  auto fit() -> Result {
    SystemClock clock;
    auto const called = clock.now();
    detail::open_standard_streams();
    auto const job = runs_on_ranks() ? join_job() : nullptr;
    detail::ExitGuard const exit_guard;
    auto const world = job != nullptr ? job->size() : config_.scaling.world_size();
    std::optional<B> backend;
    auto const training = [&](WorkerSetup setup) { return detail::run_training(*backend, train_, std::move(setup)); };

    // Whatever may throw once the job is joined happens where the other processes are told of it.
    auto const prepare = [&] {
      if (job != nullptr) validate_datasets(config_.datasets, config_.data, world);
      backend.emplace(config_.backend);
      backend->on_start(config_.scaling);
    };
    auto const follow = [&] {
      detail::RankFollower follower{
          *job,
          {.run = config_.run, .data = config_.data, .datasets = config_.datasets, .clock = clock, .prepare = prepare},
          training};
      return follower.run();
    };
    // They outlive the launcher: workers that do not return use the driver until the process ends.
    std::optional<RunDirectory> directory;
    std::optional<detail::RunDriver> driver;
    auto const lead = [&](Launcher& launcher) {
      prepare();
      directory.emplace(RunStart{.storage_path = config_.run.storage_path,
                                 .name = config_.run.name.empty() ? detail::program_name() : config_.run.name,
                                 .program = detail::program_name(),
                                 .backend = std::string{B::name},
                                 .fresh = config_.run.resume == Resume::fresh,
                                 .world_size = world,
                                 .seed = config_.run.seed,
                                 .raytrain_version = std::string{version}});
      auto callbacks = config_.callbacks;
      callbacks.insert(callbacks.begin(), std::make_shared<JsonLines>());
      driver.emplace(launcher, detail::RunDriver::Plan{
                                   .run = config_.run,
                                   .directory = *directory,
                                   .callbacks = std::move(callbacks),
                                   .backend = std::string{B::name},
                                   .data = config_.data,
                                   .datasets = config_.datasets,
                                   .clock = clock,
                                   .called = called,
                                   .ends_processes = job != nullptr || config_.run.on_hang == OnHang::exit_process});
      return driver->run(training);
    };

    Shutdown const shutdown{backend};
    if (job != nullptr) {
      if (job->rank() != Rank{0}) return follow();
      return detail::lead_ranks(*job, [&] { return lead(*job); });
    }
    ThreadLauncher launcher{config_.scaling};
    return lead(launcher);
  }

 private:
  struct Shutdown {
    std::optional<B>& backend;
    ~Shutdown() {
      if (backend) backend->on_shutdown();
    }
  };

  void validate() const {
    config_.scaling.validate();
    config_.run.validate();
    validate_datasets(config_.datasets, config_.data, config_.scaling.world_size());
    for (auto const& callback : config_.callbacks) {
      if (callback != nullptr) continue;
      throw Error{Errc::invalid_config, "TrainerConfig::callbacks", "must not hold a null pointer",
                  "write std::make_shared<MyCallback>()"};
    }
  }

  [[nodiscard]] auto runs_on_ranks() const -> bool {
    auto const launch = config_.scaling.launch;
    if (launch != Launch::automatic) return launch == Launch::ranks;
    auto const environment = job_environment();
    return (environment && environment->size.value > 1) || B::default_launch == Launch::ranks;
  }

  [[nodiscard]] auto join_job() const -> std::unique_ptr<RankJob> {
    auto settings = detail::shared_settings(B::name, config_.scaling, config_.run, config_.data, config_.datasets);
    settings.push_back({"TrainerConfig::backend", detail::config_text(config_.backend)});
    return detail::open_rank_job_of_program()({config_.scaling, config_.run.collective_timeout, std::move(settings)});
  }

  TrainerConfig<B> config_;
  std::function<void(Context&)> train_;
};

}  // namespace raytrain
