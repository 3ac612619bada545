// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <type_traits>
#include <utility>

#include <raytrain/backend/backend.hpp>
#include <raytrain/config/data_config.hpp>
#include <raytrain/config/run_config.hpp>
#include <raytrain/config/scaling_config.hpp>
#include <raytrain/core/clock.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/data/datasets.hpp>
#include <raytrain/launch/job_environment.hpp>
#include <raytrain/launch/worker_process.hpp>
#include <raytrain/preprocess/any_preprocessor.hpp>
#include <raytrain/train/callback.hpp>
#include <raytrain/train/detail/config_text.hpp>
#include <raytrain/train/detail/fit.hpp>
#include <raytrain/train/detail/prepared_datasets.hpp>
#include <raytrain/train/detail/resize_requests.hpp>
#include <raytrain/train/detail/worker_runner.hpp>
#include <raytrain/train/result.hpp>

namespace raytrain {

/// Everything about a training but its function. Name what you change.
template <class B>
struct TrainerConfig {
  ScalingConfig scaling{};
  RunConfig run{};
  DataConfig data{};
  Datasets datasets{};
  /// Learns from the dataset "train", on all workers together, and then changes all datasets; one that is fitted
  /// already only changes them. Goes into each checkpoint, from which `load_preprocessor` reads it; a run that is
  /// resumed keeps what the first start has learnt.
  AnyPreprocessor preprocessor{};
  Callbacks callbacks{};  ///< Called in this order.
  typename B::Config backend{};
};

/// What a worker runs: callable on any thread with these arguments, and without a result.
template <class F, class... Args>
concept TrainFunction = std::invocable<F const&, Args...> && std::is_void_v<std::invoke_result_t<F const&, Args...>>;

namespace detail {

/// `B::Params`: what the ready-made training of a backend takes. For a backend without one, a class of which nobody
/// can make an object.
template <class B>
struct ReadyMade {
  class Params {
    Params() = default;
  };
};
template <class B>
requires requires { typename B::Params; }
struct ReadyMade<B> {
  using Params = typename B::Params;
};

/// Calls a training function as the backend wants it called.
template <class B, class Training>
void call_training(B& backend, Training const& training) {
  if constexpr (CallingBackend<B>) {
    backend.call(training);
  } else {
    training();
  }
}

}  // namespace detail

/// Trains: runs one function on every worker, and keeps its reports and checkpoints.
///
/// Threads: one at a time. On ranks one `fit()` at a time in a process, of all its trainers.
///
/// `fit()` may be called again; it then resumes the run as `RunConfig::resume` says.
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
    make_paths_absolute();
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
    make_paths_absolute();
  }

  /// The backend's ready-made training with these parameters; for a backend that has one, as `XGBoostBackend`.
  explicit Trainer(typename detail::ReadyMade<B>::Params params, TrainerConfig<B> config = {})
      : config_{std::move(config)} {
    static_assert(ReadyMadeBackend<B>,
                  "raytrain: B has Params and does not meet the concept raytrain::ReadyMadeBackend");
    if constexpr (ReadyMadeBackend<B>) {
      params.validate();
      train_ = [params = std::move(params)](Context& context) { B::train(context, params); };
      one_worker_on_threads_ = B::trains_in_one_worker(config_.backend);
    }
    validate();
    make_paths_absolute();
  }

  /// Trains until every worker's function has returned, and gives what was reached.
  ///
  /// A stop (a signal, a callback) ends it early with `Result::state` `aborted`; the next call goes on.
  /// Errors: `TrainingFailed` when a worker, a critical callback or the storage failed. Before any worker starts:
  /// `invalid_config`; `invalid_call` when another process trains in the folder; `foreign_run`, `corrupt_checkpoint`
  /// and `io` from the folder; `not_found` and `corrupt_checkpoint` of `RunConfig::resume_from_checkpoint`;
  /// `worker_failed` when one cannot be started. On ranks also as `RankJob`, and `worker_failed` when rank 0 is lost.
  auto fit() -> Result {
    std::optional<B> backend;
    SystemClock clock;
    return detail::fit({.scaling = config_.scaling,
                        .run = config_.run,
                        .data = config_.data,
                        .datasets = config_.datasets,
                        .preprocessor = config_.preprocessor,
                        .callbacks = config_.callbacks,
                        .backend = B::name,
                        .default_launch = B::default_launch,
                        .one_worker_on_threads = one_worker_on_threads_,
                        .clock = clock,
                        .resize_requests = resize_requests_,
                        .backend_settings = [&] { return detail::config_text(config_.backend); },
                        .start_backend =
                            [&](ScalingConfig const& scaling) {
                              backend.emplace(config_.backend);
                              backend->on_start(scaling);
                            },
                        .shut_backend_down =
                            [&] {
                              if (backend) backend->on_shutdown();
                            },
                        .training =
                            [&](WorkerSetup setup) {
                              auto const train = [&](Context& context) {
                                detail::call_training(*backend, [&] { train_(context); });
                              };
                              return detail::run_training(*backend, train, std::move(setup));
                            }});
  }

  /// Asks for so many workers in an elastic run (`ScalingConfig::num_workers`), while `fit()` runs: from another
  /// thread, or from a callback. It returns at once; `Callback::on_restart` tells when as many go on. Until then
  /// another call takes its place.
  ///
  /// Threads: any. In a worker process (`is_worker_process`) there is nobody to ask.
  /// Errors: `invalid_config` for a number out of the range; `invalid_call` while no `fit()` of this trainer has
  /// workers.
  void resize(std::int64_t workers) { resize_requests_.ask(workers); }

 private:
  /// Now, so that a later change of the current directory does not move them.
  void make_paths_absolute() {
    if (auto& folder = config_.data.prepared_folder; !folder.empty()) folder = std::filesystem::absolute(folder);
    if (auto& source = config_.run.resume_from_checkpoint; !source.folder().empty())
      source = std::filesystem::absolute(source.folder());
  }

  void validate() const {
    config_.scaling.validate();
    config_.run.validate();
    validate_datasets(config_.datasets, config_.data, config_.scaling);
    detail::validate_preprocessor(config_.preprocessor, config_.datasets);
    detail::validate_prepared_folder(config_.data, config_.preprocessor, config_.datasets);
    for (auto const& callback : config_.callbacks) {
      if (callback != nullptr) continue;
      throw Error{Errc::invalid_config, "TrainerConfig::callbacks", "must not hold a null pointer",
                  "write std::make_shared<MyCallback>()"};
    }
  }

  TrainerConfig<B> config_;
  std::function<void(Context&)> train_;
  bool one_worker_on_threads_ = false;
  detail::ResizeRequests resize_requests_;
};

}  // namespace raytrain
