// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include <raytrain/config/data_config.hpp>
#include <raytrain/config/run_config.hpp>
#include <raytrain/config/scaling_config.hpp>
#include <raytrain/data/datasets.hpp>
#include <raytrain/preprocess/any_preprocessor.hpp>
#include <raytrain/train/callback.hpp>
#include <raytrain/train/detail/resize_requests.hpp>
#include <raytrain/train/result.hpp>
#include <raytrain/train/worker_setup.hpp>

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
  bool one_worker_on_threads;  ///< It has the cores of all that the settings ask for.
  ResizeRequests& resize_requests;
  std::function<std::string()> backend_settings;            ///< As text, which ranks compare.
  std::function<void(ScalingConfig const&)> start_backend;  ///< Makes the backend, before any worker runs.
  std::function<void()> shut_backend_down;                  ///< Does nothing when it was not made.
  std::function<bool(WorkerSetup)> training;                ///< What each worker runs: whether a stop cut it short.
};

/// Errors: as `Trainer::fit`.
auto fit(FitPlan const& plan) -> Result;

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/train/detail/fit-inl.hpp>
#endif
