// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/checkpoint/checkpoint_copies.hpp>
#include <raytrain/config/data_config.hpp>
#include <raytrain/config/run_config.hpp>
#include <raytrain/config/scaling_config.hpp>
#include <raytrain/core/clock.hpp>
#include <raytrain/data/datasets.hpp>
#include <raytrain/exec/background_thread.hpp>
#include <raytrain/message/message.hpp>
#include <raytrain/preprocess/any_preprocessor.hpp>
#include <raytrain/train/callback.hpp>
#include <raytrain/train/detail/resize_requests.hpp>
#include <raytrain/train/worker_setup.hpp>

namespace raytrain {

class CheckpointStore;
class HangWatch;

}  // namespace raytrain

namespace raytrain::detail {

/// What `Trainer::fit()` knows, without the backend's type.
struct FitPlan {
  ScalingConfig const& scaling;
  RunConfig const& run;
  DataConfig const& data;
  Datasets const& datasets;
  AnyPreprocessor const& preprocessor;  ///< May be none.
  Callbacks const& callbacks;
  std::string_view backend;    ///< Its name.
  Launch default_launch;       ///< The backend's.
  bool one_worker_on_threads;  ///< On threads one worker trains, with the cores of all that were asked for.
  Clock& clock;
  ResizeRequests& resize_requests;
  std::function<std::string()> backend_settings;            ///< As text, which ranks compare.
  std::function<void(ScalingConfig const&)> start_backend;  ///< Makes the backend, before any worker runs.
  std::function<void()> shut_backend_down;                  ///< Does nothing before `start_backend`.
  std::function<bool(WorkerSetup)> training;  ///< What each worker runs; returns whether a stop cut it short.
};

/// What a process adds to `FitPlan` and `Begin` for the workers that it launches in one attempt.
struct ForWorkers {
  WorkerRange range{};                   ///< As in `RunShared`.
  std::optional<Checkpoint> checkpoint;  ///< The one to go on from.
  CheckpointStore& store;
  BackgroundThread& store_thread;  ///< As in `RunShared`.
  HangWatch& hang_watch;
  std::shared_ptr<CheckpointCopies> copies;
  bool has_first_rank = false;
};

/// What the workers of this process share in the attempt that begins with this message.
[[nodiscard]] auto shared_by_workers(FitPlan const& plan, Begin const& begin, ForWorkers here)
    -> std::shared_ptr<RunShared const>;

/// The backend of one `fit()`: shut down at its end, if it was made.
class BackendInUse {
 public:
  explicit BackendInUse(FitPlan const& plan) : plan_{plan} {}
  BackendInUse(BackendInUse const&) = delete;
  auto operator=(BackendInUse const&) -> BackendInUse& = delete;
  ~BackendInUse() { plan_.shut_backend_down(); }

  /// Makes the backend; one that was made before is shut down first.
  void start(ScalingConfig const& scaling) const {
    plan_.shut_backend_down();
    plan_.start_backend(scaling);
  }

 private:
  FitPlan const& plan_;
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/train/detail/fit_plan-inl.hpp>
#endif
